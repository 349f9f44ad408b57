"""What a preflight finds in accounts with one thing wrong, and in accounts with nothing wrong."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest

from hyperpod_dpd.catalog.endpoints import endpoint_services
from hyperpod_dpd.catalog.regions import region
from hyperpod_dpd.preflight.check import Check, Gap
from hyperpod_dpd.preflight.checks import ALL, CHECKS, GATE
from hyperpod_dpd.preflight.quota import QUOTA_CALLS
from hyperpod_dpd.preflight.report import Report, Status
from hyperpod_dpd.preflight.runner import preflight
from hyperpod_dpd.spec import Deployment, HubOrigin, LoadBalancer, Spot
from tests.preflight.aws import NOW, Refusal, TableAccount, WebAnswer
from tests.preflight.healthy import VPC, deployments, healthy, quota, web
from tests.preflight.plant import (
    KEY,
    Call,
    hub,
    row_of,
    subnet,
    training_plan,
)
from tests.preflight.planted import account, capacity, cluster, data, network
from tests.support.deployments import ROOT, changed

PLANTED = {**account.PLANTED, **capacity.PLANTED, **cluster.PLANTED, **data.PLANTED, **network.PLANTED}


def _interfaces(*services: str) -> dict[Call, Any]:
    call = ("ec2", "DescribeVpcEndpoints")
    row = healthy()[call]["VpcEndpoints"][1]
    return {
        call: {
            "VpcEndpoints": [{**row, "ServiceName": f"com.amazonaws.us-east-1.{each}"} for each in services]
        }
    }


def run(deployment: Deployment, account: TableAccount) -> Report:
    """Run every check."""
    return preflight(deployment, account, checks=CHECKS, gate=GATE)


def by_id(check_id: str) -> Check:
    return next(check for check in ALL if check.id == check_id)


@pytest.mark.parametrize("name", deployments())
def test_healthy_account_has_nothing_to_mend_and_nothing_unknown(name: str) -> None:
    report = run(deployments()[name], TableAccount(healthy(), web=web))
    assert [str(finding) for finding in report.findings] == []
    assert [gap.message for _, gap in report.gaps] == []
    assert {outcome.status for outcome in report.outcomes} == {Status.OK}


@pytest.mark.parametrize("name", PLANTED)
def test_planted_problem_is_found_with_its_numbers_and_its_fix_and_nothing_beside_it(name: str) -> None:
    planted = PLANTED[name]
    checks = [check for check in CHECKS if check.id == planted.check]
    report = preflight(planted.altered(), planted.account(), checks=checks, gate=GATE)
    assert sorted(finding.problem.path for finding in report.findings) == sorted(
        (planted.path, *planted.besides)
    )
    assert {finding.rule for finding in report.findings} == {planted.check}
    assert [gap.message for _, gap in report.gaps] == []
    (finding,) = (finding for finding in report.findings if finding.problem.path == planted.path)
    for text in planted.says:
        assert text in finding.message
    assert ". help: " in finding.message
    assert finding.problem.says[0].islower() or finding.problem.says.startswith(
        ("EKS", "CDK", "HyperPod", "Amazon")
    )


def test_every_check_has_a_planted_problem() -> None:
    assert {planted.check for planted in PLANTED.values()} == {check.id for check in ALL}


def test_a_load_balancer_without_a_certificate_has_none_to_look_at() -> None:
    deployment = changed(deployments()["default"], routing__load_balancer=LoadBalancer())
    report = preflight(deployment, TableAccount(healthy(), web=web), checks=[by_id("PRE-TLS-001")], gate=GATE)
    assert not report.findings


def test_several_problems_are_found_at_once() -> None:
    planted = [PLANTED[name] for name in ("quota-0", "old-bootstrap", "zone-unseen", "five-addresses")]
    answers = healthy()
    for each in planted:
        answers |= each.answers
    answers["service-quotas", "GetServiceQuota"] = quota(L_8762A75F=0.0, L_0263D0A3=5.0)
    report = run(deployments()["default"], TableAccount(answers))
    assert {finding.rule for finding in report.findings} == {each.check for each in planted}


def test_every_check_has_a_file_and_an_id_of_its_own() -> None:
    files = {path.stem for path in (ROOT / "constructs/hyperpod_dpd/preflight/checks").glob("[a-z]*.py")}
    assert len(files) == len(ALL) == len({check.id for check in ALL})


def _calls_of(check: Check, deployment: Deployment, account: TableAccount) -> set[Call]:
    _ = account.account_id
    account.calls.clear()
    try:
        for _answer in check.look(deployment, account):
            pass
    except Exception:  # noqa: BLE001 - what is asked counts, not what comes of it
        pass
    return set(account.calls)


@pytest.mark.parametrize("check", [check for check in ALL if check is not GATE], ids=lambda check: check.id)
def test_check_declares_exactly_the_calls_that_it_makes(check: Check) -> None:
    made: set[Call] = set()
    for deployment in deployments().values():
        if check.applies(deployment):
            made |= _calls_of(check, deployment, TableAccount(healthy(), web=web))
    for planted in PLANTED.values():
        if planted.check == check.id:
            made |= _calls_of(check, planted.altered(), planted.account())
            if QUOTA_CALLS[1] not in check.calls:
                continue
            # quotas that an account never had are asked for once more
            answers = {
                **healthy(),
                ("service-quotas", "GetServiceQuota"): Refusal(code="NoSuchResourceException"),
            }
            made |= _calls_of(check, planted.altered(), TableAccount(answers, web=web))
    assert made == {(call.service, call.operation) for call in check.calls}


def test_gate_asks_who_it_is_and_nothing_else() -> None:
    account = TableAccount(healthy())
    list(GATE.look(deployments()["default"], account))
    assert account.calls == [("sts", "GetCallerIdentity")]


@pytest.mark.parametrize(
    ("check", "call"),
    [
        pytest.param(check, call, id=f"{check.id}-{call.action}")
        for check in ALL
        for call in check.calls
        if call.action is not None
    ],
)
def test_missing_permission_is_named_and_never_a_traceback(check: Check, call: Any) -> None:
    denied = Refusal(
        code="AccessDeniedException",
        message=f"User: arn:aws:iam::1:user/x is not authorized to perform: {call.action}",
        status=403,
    )
    found: list[Gap] = []
    scenarios: list[tuple[Deployment, Mapping[Call, Any]]] = [(each, {}) for each in deployments().values()]
    # some calls are made only when something else is wrong
    scenarios += [(each.altered(), each.answers) for each in PLANTED.values() if each.check == check.id]
    for deployment, planted in scenarios:
        if not check.applies(deployment):
            continue
        answers = {**healthy(), **planted, (call.service, call.operation): denied}
        if call.operation == "GetAWSDefaultServiceQuota":
            answers["service-quotas", "GetServiceQuota"] = Refusal(code="NoSuchResourceException")
        report = preflight(deployment, TableAccount(answers, web=web), checks=[check], gate=GATE)
        found = [gap for asked, gap in report.gaps if asked is check]
        if found:
            break
    assert found
    for gap in found:
        assert gap.needs == call.action
        assert f"needs `{call.action}`" in gap.message
        assert gap.message.startswith("could not check ")
        assert "--policy" in gap.fix


def test_deployment_that_is_there_already_takes_nothing_new() -> None:
    """What it owns is not a collision, and what it uses is counted as used."""
    answers = {
        **healthy(),
        ("ssm", "GetParameter"): {"Parameter": {"Value": "30"}},
        ("eks", "DescribeCluster"): {"cluster": {"name": "llama-3-3-70b-p5"}},
        ("s3", "HeadBucket"): {},
        ("service-quotas", "GetServiceQuota"): quota(L_F678F1CE=1.0, L_0263D0A3=1.0, L_1216C47A=4.0),
    }
    report = run(deployments()["default"], TableAccount(answers))
    assert [str(finding) for finding in report.findings] == []


def test_plan_that_begins_while_the_deployment_waits_is_fine() -> None:
    answers = {**healthy(), **training_plan(Status="Scheduled", StartTime=NOW + timedelta(hours=2))}
    report = preflight(deployments()["plan"], TableAccount(answers), checks=[by_id("PRE-CAP-001")], gate=GATE)
    assert (report.findings, report.gaps) == ([], [])


def test_own_cluster_does_not_count_against_its_own_quota() -> None:
    deployment = changed(deployments()["default"], hyperpod__cluster_name="training")
    answers = {
        **healthy(),
        ("service-quotas", "GetServiceQuota"): quota(L_8762A75F=2.0),
    }
    report = preflight(deployment, TableAccount(answers), checks=[by_id("PRE-QUO-001")], gate=GATE)
    assert report.findings == []


def test_cluster_that_is_deleted_meanwhile_is_passed_over() -> None:
    answers = {
        **healthy(),
        ("sagemaker", "DescribeCluster"): Refusal(code="ResourceNotFound"),
        ("service-quotas", "GetServiceQuota"): quota(L_8762A75F=2.0),
    }
    report = preflight(
        deployments()["default"], TableAccount(answers), checks=[by_id("PRE-QUO-001")], gate=GATE
    )
    assert (report.findings, report.gaps) == ([], [])


def test_spot_quota_without_a_public_code_is_unknown() -> None:
    deployment = changed(
        deployments()["default"],
        hyperpod__instance_groups__0__instance_type="ml.p5en.48xlarge",
        hyperpod__instance_groups__0__capacity=Spot(type="spot"),
    )
    report = preflight(deployment, TableAccount(healthy()), checks=[by_id("PRE-QUO-001")], gate=GATE)
    ((_, gap),) = report.gaps
    assert "`ml.p5en.48xlarge for cluster spot instance usage`" in gap.message


def test_archive_of_which_s3_knows_no_digest_is_unknown() -> None:
    answers = {**healthy(), ("s3", "HeadObject"): {"ChecksumSHA256": "eA==", "ChecksumType": "COMPOSITE"}}
    report = preflight(
        deployments()["closed"], TableAccount(answers), checks=[by_id("PRE-DAT-003")], gate=GATE
    )
    ((_, gap),) = report.gaps
    assert "S3 keeps no SHA-256" in gap.message


def test_secret_that_may_not_be_read_does_not_hide_the_next() -> None:
    answers = {
        **healthy(),
        ("secretsmanager", "DescribeSecret"): lambda parameters: (
            Refusal(code="AccessDeniedException")
            if parameters["SecretId"] == "hub-token"
            else Refusal(code="ResourceNotFoundException")
        ),
    }
    report = preflight(deployments()["hub"], TableAccount(answers), checks=[by_id("PRE-SEC-001")], gate=GATE)
    assert [gap.what for _, gap in report.gaps] == ["the secret `hub-token`"]
    assert [finding.problem.path for finding in report.findings] == ["routing.api_keys_secret"]


def test_secrets_are_never_shown() -> None:
    answers = {**healthy(), ("secretsmanager", "GetSecretValue"): {"SecretString": "hf_very_secret"}}
    report = run(deployments()["hub"], TableAccount(answers, web=hub(403)))
    assert report.findings
    assert "hf_very_secret" not in repr(report)


def test_token_goes_to_the_hub_only() -> None:
    sent: dict[str, Mapping[str, str]] = {}

    def record(url: str, headers: Mapping[str, str]) -> WebAnswer:
        sent[url] = headers
        return WebAnswer(status=200)

    run(deployments()["hub"], TableAccount(healthy(), web=record))
    ((url, headers),) = sent.items()
    revision = deployments()["hub"].model.revision
    assert url == f"https://huggingface.co/meta-llama/Llama-3.3-70B-Instruct/resolve/{revision}/config.json"
    assert headers["Authorization"] == "Bearer hf_something"


def test_secrets_that_the_deployment_makes_may_be_absent() -> None:
    answers = {**healthy(), ("secretsmanager", "DescribeSecret"): Refusal(code="ResourceNotFoundException")}
    report = preflight(
        deployments()["default"], TableAccount(answers), checks=[by_id("PRE-SEC-001")], gate=GATE
    )
    assert (report.findings, report.gaps) == ([], [])


def test_a_given_bucket_that_will_be_filled_may_be_empty() -> None:
    answers = {**healthy(), ("s3", "ListObjectsV2"): {"Contents": []}}
    filled = changed(deployments()["bucket"], model__imported_from=HubOrigin(token_secret="hub-token"))
    for deployment, empty in ((filled, []), (deployments()["bucket"], ["model.source.prefix"])):
        report = preflight(deployment, TableAccount(answers), checks=[by_id("PRE-DAT-001")], gate=GATE)
        assert [finding.problem.path for finding in report.findings] == empty


@pytest.mark.parametrize(
    ("named", "manager"), [(KEY, "CUSTOMER"), (None, "AWS")], ids=["named", "the key of S3 itself"]
)
def test_a_model_under_a_key_that_its_readers_may_use_is_no_problem(named: str | None, manager: str) -> None:
    answers = {
        **healthy(),
        ("s3", "HeadObject"): {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": KEY},
        ("kms", "DescribeKey"): {"KeyMetadata": {"KeyId": "k", "KeyManager": manager}},
    }
    deployment = changed(deployments()["bucket"], model__source__kms_key_arn=named)
    report = preflight(deployment, TableAccount(answers), checks=[by_id("PRE-DAT-001")], gate=GATE)
    assert not [finding for outcome in report.outcomes for finding in outcome.findings]


def test_a_key_that_may_not_be_described_is_a_gap() -> None:
    answers = {
        **healthy(),
        ("s3", "HeadObject"): {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": KEY},
        ("kms", "DescribeKey"): Refusal(code="AccessDeniedException"),
    }
    report = preflight(
        deployments()["bucket"], TableAccount(answers), checks=[by_id("PRE-DAT-001")], gate=GATE
    )
    (gap,) = (gap for outcome in report.outcomes for gap in outcome.gaps)
    assert f"the key `{KEY}` of `bucket: weights`" in str(gap)
    assert "kms:DescribeKey" in str(gap)


def test_endpoints_that_may_be_in_another_vpc_are_asked_for_and_not_called_missing() -> None:
    deployment = changed(
        deployments()["vpc"], network__interface_endpoints=False, network__existing__endpoint_services=()
    )
    report = preflight(deployment, TableAccount(healthy()), checks=[by_id("PRE-NET-006")], gate=GATE)
    assert list(report.findings) == []
    ((_, gap),) = report.gaps
    assert "`vpc-0123456789abcdef0` has none; they may be in another VPC" in gap.message
    assert "`sts`" not in gap.message
    assert "`aps-workspaces.us-east-1.amazonaws.com`" in gap.message
    ecr = endpoint_services(region("us-east-1"), without=("ecr.api", "sts"))
    answers = {**healthy(), **_interfaces(*ecr, "sts")}
    report = preflight(deployment, TableAccount(answers), checks=[by_id("PRE-NET-006")], gate=GATE)
    ((_, gap),) = report.gaps
    assert "could not check the endpoints of `ecr.api`: " in gap.message
    assert "`api.ecr.us-east-1.amazonaws.com`" in gap.message


def test_routes_that_the_account_does_not_see_are_unknown() -> None:
    answers = {**healthy(), ("ec2", "DescribeRouteTables"): {"RouteTables": []}}
    report = preflight(
        deployments()["vpc-of-operator"], TableAccount(answers), checks=[by_id("PRE-NET-005")], gate=GATE
    )
    assert list(report.findings) == []
    assert len(report.gaps) == 3


def test_nodes_that_run_in_an_existing_vpc_have_their_addresses() -> None:
    deployment = changed(deployments()["vpc"], hyperpod__cluster_name="gpus")
    answers = {
        **healthy(),
        ("ssm", "GetParameter"): {"Parameter": {"Value": "30"}},
        # one of `prefill` runs, `decode` is missing
        **subnet(VPC.gpu_subnet_id, AvailableIpAddressCount=81),
        **row_of(("ec2", "DescribeVpcEndpoints"), 1, ServiceName="com.amazonaws.us-east-1.ecr.api"),
    }
    report = run(deployment, TableAccount(answers, web=web))
    assert [
        str(finding) for finding in report.findings if "NET" in finding.rule or "QUO" in finding.rule
    ] == []


def test_system_nodes_that_the_catalog_does_not_know_are_left_to_the_reader() -> None:
    deployment = changed(deployments()["vpc"], cluster__system_nodes__instance_type="m6id.xlarge")
    report = preflight(deployment, TableAccount(healthy()), checks=[by_id("PRE-NET-004")], gate=GATE)
    ((_, gap),) = report.gaps
    assert "the catalog does not have `m6id.xlarge`" in gap.message
