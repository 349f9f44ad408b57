"""Text that names something outside has the form of what it names; numbers stay within what can be meant."""

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import pytest
import yaml

from hyperpod_dpd.spec import Deployment
from hyperpod_dpd.spec.forms import WORDS
from hyperpod_dpd.spec.load import UnreadableDeploymentError, load
from tests.unit.rules.example import Changes, default_data
from tests.unit.rules.example import deployment as changed

DIGEST = "@sha256:" + "0" * 64

GOOD: tuple[Changes, ...] = (
    {"model.source": {"type": "s3", "bucket": "my.models-1", "prefix": "llama/3.3/"}},
    {"model.source": {"type": "s3", "prefix": "models/.cache/a+b=c"}},
    {"model.source": {"type": "huggingface", "token_secret": "dpd/Hub_token+1=.@-"}},
    {
        "model.source": {
            "type": "fsx",
            "file_system_id": "fs-0123456789abcdef0",
            "dns_name": "fs-0123456789abcdef0.fsx.us-east-1.amazonaws.com",
            "mount_name": "aB_-1234",
            "path": "/models/llama/",
        }
    },
    {"model.source": {"type": "volume", "claim": "team.weights-1", "path": "/"}},
    {"model.repository": "meta-llama/Llama-3.3-70B-Instruct"},
    {"model.served_name": "meta-llama/Llama-3.3:latest"},
    {"serving.engine.image": "123456789012.dkr.ecr.us-east-1.amazonaws.com/worker:1.0_a"},
    {"serving.engine.image": f"localhost:5000/a/b{DIGEST}"},
    {"serving.prefill.environment": {"_VLLM_1": ""}},
    {
        "routing.load_balancer": {
            "certificate_arn": "arn:aws-us-gov:acm:us-gov-west-1:123456789012:certificate/0-a"
        }
    },
    {"routing.client_namespaces": ["a", "chat-2"]},
    {"routing.tracing_endpoint": "http://collector.traces.svc:4318"},
    {"platform.images.router": f"registry.example/router{DIGEST}"},
    {"platform.alerts": {"email_addresses": ["on-call+dpd@example.co.uk"]}},
    {"platform.alerts": {"topic_arn": "arn:aws:sns:us-east-1:123456789012:alerts"}},
    {"platform.custom_resources": ["monitoring.coreos.com"]},
    {"slo.tpot_p95_seconds": 0.001, "traffic.concurrency": 2**31 - 1},
)

NAME_OF_NOTHING = (
    " ",
    "ä😀",
    "a\nb",
    "{{ .x }}",
    "${dpd:NAME}",
    "${Token[TOKEN.1]}",
    "$(X)",
    "../../etc",
    "-x-",
    "",
)

FORMED = (
    "model.source.bucket",
    "model.repository",
    "model.served_name",
    "serving.engine.image",
    "routing.api_keys_secret",
    "routing.tracing_endpoint",
    "routing.client_namespaces",
    "platform.scraping_namespace",
    "platform.images.worker",
    "platform.alerts.email_addresses",
    "platform.alerts.topic_arn",
    "platform.custom_resources",
)

BAD: tuple[tuple[str, Any, str], ...] = (
    *(
        (path, text, "should be")
        for path in FORMED
        for text in NAME_OF_NOTHING
        if not (text == "-x-" and "secret" in path)
        if not (text == "../../etc" and "secret" in path)
    ),
    ("model.source.bucket", "s3://models", "the name of an S3 bucket"),
    ("model.source.prefix", "/models", "without a leading `/`"),
    ("model.source.prefix", "a/../b", "a key prefix"),
    ("platform.images.worker", "registry.example/Worker", "an image reference"),
    ("routing.client_namespaces", "Chat", "1 to 63 lower-case letters"),
    ("routing.tracing_endpoint", "collector:4317", "a URL"),
    ("platform.custom_resources", "keda", "an API group"),
    ("serving.operator.invocation_path", "/v1/completions", "without a leading `/`"),
    ("serving.operator.cache_config_file", "lmcache.yaml", "an absolute path"),
    ("serving.operator.topology.zone_name", "use1-az6", "the name of a zone"),
    ("serving.engine.vllm", "banana", "a version such as"),
    ("traffic.input_tokens", 2**31, "at most 2.14748e+09"),
    ("serving.transfer.pd_buffer_gib", 1e300, "at most 2.14748e+09"),
    ("serving.transfer.allocation_timeout_seconds", 1e-300, "at least 0.001"),
    ("cluster.system_nodes.maximum", 451, "at most 450"),
)


@pytest.mark.parametrize("changes", GOOD, ids=lambda changes: next(iter(changes)))
def test_usual_names_are_read(changes: Changes) -> None:
    changed(changes)


@pytest.mark.parametrize(("path", "value", "words"), BAD)
def test_what_cannot_be_meant_is_refused_in_words(tmp_path: Path, path: str, value: Any, words: str) -> None:
    data = default_data()
    *above, last = path.split(".")
    at = data
    for part in above:
        at = at.setdefault(part, {})
    in_list = last in {"client_namespaces", "email_addresses", "custom_resources"}
    at[last] = [value] if in_list else value
    file = tmp_path / "deployment.yaml"
    file.write_text(yaml.safe_dump(data, allow_unicode=True), encoding="utf-8")
    with pytest.raises(UnreadableDeploymentError) as refusal:
        load(file)
    (mistake,) = refusal.value.mistakes
    assert mistake.path == (f"{path}[0]" if in_list else path)
    assert mistake.line is not None
    assert words in mistake.says
    assert "pattern" not in mistake.says


def test_name_of_a_variable_is_refused_at_the_variable(tmp_path: Path) -> None:
    data = default_data()
    data["serving"]["prefill"]["environment"] = {"A-B": "1"}
    file = tmp_path / "deployment.yaml"
    file.write_text(yaml.safe_dump(data), encoding="utf-8")
    with pytest.raises(UnreadableDeploymentError, match="the name of a variable"):
        load(file)


CHECKED_ELSEWHERE = {
    "Acknowledgement.reason": "said to people",
    "Acknowledgement.rule": "DPD-ACK-001",
    "Cluster.addon_versions": "DPD-EKS-009, DPD-EKS-010",
    "Cluster.administrators": "DPD-EKS-016",
    "Cluster.kubernetes_version": "DPD-EKS-006",
    "Cluster.public_access_cidrs": "DPD-EKS-017",
    "DependenciesChart.s3_uri": "DPD-EKS-019",
    "DependenciesChart.sha256": "DPD-EKS-019",
    "Deployment.account": "DPD-SPEC-004",
    "Deployment.name": "DPD-SPEC-002",
    "Deployment.region": "DPD-SPEC-003",
    "Deployment.tags": "DPD-SPEC-005",
    "Engine.name": "DPD-SRV-000",
    "ExistingCluster.eks_name": "DPD-EKS-034",
    "ExistingCluster.hyperpod_name": "DPD-EKS-034",
    "ExistingCluster.parameter_prefix": "DPD-EKS-034",
    "ExistingVpc.cidrs": "DPD-NET-025",
    "ExistingVpc.endpoint_services": "DPD-NET-028",
    "EndpointCertificate.arn": "DPD-SRV-418",
    "EndpointCertificate.domain_name": "DPD-SRV-418",
    "EndpointCertificate.hosted_zone_id": "DPD-SRV-418",
    "HyperPod.cluster_name": "DPD-HP-013",
    "InferenceOperator.tls_bucket": "DPD-DATA-010",
    "InferenceOperator.version": "DPD-EKS-010",
    "InstanceGroup.instance_type": "DPD-HP-001",
    "InstanceGroup.labels": "DPD-HP-011",
    "InstanceGroup.name": "DPD-HP-013",
    "InstanceGroup.placement_group": "DPD-HP-002",
    "InstanceGroup.zone_id": "DPD-NET-008",
    "LoadBalancer.inbound_cidrs": "DPD-NET-023",
    "Model.config_file": "a local file, read by the check",
    "Model.name": "DPD-SRV-000",
    "Model.revision": "DPD-K8S-004",
    "Network.cidr": "DPD-NET-004",
    "Network.cluster_zone_ids": "DPD-NET-008",
    "Network.gpu_cidr": "DPD-NET-004",
    "Network.gpu_zone_id": "DPD-NET-008",
    "OperatorEndpoint.certificate_output_s3_uri": "DPD-SRV-418",
    "OperatorEndpoint.endpoint_name": "DPD-SRV-418",
    "OperatorEndpoint.environment": "values are free; DPD-SRV-420 guards the names",
    "Price.as_of": "DPD-SPEC-006",
    "Price.instance_type": "DPD-SPEC-006",
    "Price.source": "said to people",
    "Removal.confirm": "DPD-DATA-001",
    "Schedule.start_cron": "DPD-HP-020",
    "Schedule.stop_cron": "DPD-HP-020",
    "Schedule.time_zone": "DPD-HP-020",
    "SystemNodes.instance_type": "DPD-EKS-013",
    "Taint.key": "DPD-HP-012",
    "Taint.value": "DPD-HP-012",
    "Topology.placement_group": "EC2 takes any text",
    "Traffic.trace_file": "a local file, read by the plan",
    "TrainingPlan.arn": "DPD-HP-014",
    "Worker.environment": "values are free; DPD-SRV-214 guards the names",
    "Worker.extra_args": "DPD-SRV-205",
    "Worker.instance_group": "DPD-SRV-000",
}
"""Texts without a form, and what looks at them instead."""


def _texts(kind: Any, owner: str = "") -> Iterator[tuple[str, bool]]:
    """Yield every text of the specification and whether it has a form."""
    arguments = get_args(kind)
    if get_origin(kind) is Annotated:
        formed = any(hasattr(part, "pattern") for part in arguments[1:])
        if arguments[0] is str:
            yield owner, formed
        else:
            yield from _texts(arguments[0], owner)
    elif kind is str:
        yield owner, False
    elif isinstance(kind, type) and is_dataclass(kind):
        hints = get_type_hints(kind, include_extras=True)
        for field in fields(kind):
            yield from _texts(hints[field.name], f"{kind.__name__}.{field.name}")
    elif get_origin(kind) is not Literal:
        for argument in arguments:
            yield from _texts(argument, owner)


def test_every_text_has_a_form_or_a_rule() -> None:
    texts = set(_texts(Deployment))
    assert ("S3Source.bucket", True) in texts
    formless = {name for name, formed in texts if not formed}
    assert formless - CHECKED_ELSEWHERE.keys() == set()


def test_every_form_says_what_it_wants_as_the_end_of_a_sentence() -> None:
    assert WORDS
    for words in WORDS.values():
        assert not words.endswith(".")
        assert words[0].islower() or words[0] == "`"
