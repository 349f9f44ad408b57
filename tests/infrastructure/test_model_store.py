"""Model bucket, file system, import and secrets: what a template with them says."""

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
import yaml

from hyperpod_dpd.builds import BuildRunner
from hyperpod_dpd.security.logs import logs_key
from hyperpod_dpd.security.secrets import DeploymentSecrets
from hyperpod_dpd.serving.bindings import Binding
from hyperpod_dpd.serving.model_source import model_argument
from hyperpod_dpd.spec import (
    Deployment,
    FolderOrigin,
    FsxSource,
    HubOrigin,
    HuggingFaceSource,
    S3Source,
    VolumeSource,
)
from hyperpod_dpd.storage import AccessLogs, ModelFileSystem, ModelImport, ModelStore
from hyperpod_dpd.storage import model_import as import_module
from tests.support.deployments import changed, ready
from tests.support.synth import KEY, THEIR_KEY
from tests.support.template import app, only, resources, synthesized

RETAIN = cdk.RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE
OWN = "hyperpod-dpd/llama-3-3-70b-p5/huggingface"
REVISION = "6f6073b423013f6a7d4d9f39144961bfbfbc386b"
FOLDER = f"models/llama-3.3-70b-instruct/{REVISION}"

DEPLOYMENTS: dict[str, Callable[[], Deployment]] = {
    "made": ready,
    "made-with-token": lambda: changed(
        ready(),
        model__imported_from=HubOrigin(token_secret=OWN),
        routing__api_keys_secret="mine/api-keys",
    ),
    "given": lambda: changed(ready(), model__source=S3Source(bucket="mine", prefix="llama")),
    "given-and-filled": lambda: changed(
        ready(),
        model__source=S3Source(bucket="mine", prefix="llama"),
        model__imported_from=FolderOrigin(type="s3", uri="s3://theirs/models/llama"),
    ),
    "left-by-an-attempt": lambda: changed(
        ready(),
        model__source=S3Source(bucket="left"),
        model__imported_from=HubOrigin(token_secret=OWN),
    ),
    "with-keys": lambda: changed(
        ready(),
        model__source=S3Source(kms_key_arn=KEY),
        model__imported_from=FolderOrigin(type="s3", uri="s3://theirs/models/llama", kms_key_arn=THEIR_KEY),
    ),
    "fsx": lambda: changed(ready(), model__source=FsxSource(type="fsx", storage_gib=2400)),
}


class _Stack(cdk.Stack):
    def __init__(self, deployment: Deployment) -> None:
        super().__init__(app(), "Platform", env=cdk.Environment(region=deployment.region))
        key = logs_key(self, "LogsKey", removal_policy=RETAIN)
        self.secrets = DeploymentSecrets(self, "Secrets", deployment=deployment, removal_policy=RETAIN)
        self.store = ModelStore(
            self,
            "ModelStore",
            deployment=deployment,
            access_logs=AccessLogs(self, "AccessLogs", removal_policy=RETAIN),
            removal_policy=RETAIN,
        )
        if (
            deployment.model.source.type == "s3"
            and deployment.model.source.bucket
            and (deployment.model.imported_from is None)
        ):
            return
        self.imported = ModelImport(
            self,
            "ModelImport",
            deployment=deployment,
            store=self.store,
            secrets=self.secrets,
            builds=BuildRunner(self, "Builds", log_key=key, removal_policy=RETAIN),
        )
        if deployment.model.source.type == "fsx":
            self.files = ModelFileSystem(
                self,
                "ModelFileSystem",
                deployment=deployment,
                store=self.store,
                vpc_id="vpc-1",
                subnet_id="subnet-gpu",
                client_security_group_ids=["sg-efa", "sg-cluster"],
                removal_policy=RETAIN,
                after=self.imported.imported,
            )


@cache
def _synthesized(name: str) -> tuple[_Stack, Any]:
    stack = _Stack(DEPLOYMENTS[name]())
    return stack, synthesized(stack)


def _template(name: str) -> Any:
    return _synthesized(name)[1]


def _statements(template: Any, role: str) -> list[Any]:
    policies = resources(template, "AWS::IAM::Policy").values()
    (policy,) = [body for body in policies if role in json.dumps(body["Properties"]["Roles"])]
    statements: list[Any] = policy["Properties"]["PolicyDocument"]["Statement"]
    return statements


def _allowed(template: Any, role: str, service: str) -> dict[str, str]:
    """Return actions of one service, each with its resources as text."""
    allowed: dict[str, str] = {}
    for statement in _statements(template, role):
        actions = statement["Action"]
        for action in [actions] if isinstance(actions, str) else actions:
            if action.startswith(service):
                allowed[action] = allowed.get(action, "") + json.dumps(statement["Resource"])
    return allowed


def _environment(template: Any) -> Any:
    return only(template, "Custom::DpdModelImport")[1]["Properties"]["Environment"]


def test_a_bucket_that_a_failed_attempt_left_is_looked_into_where_that_attempt_wrote() -> None:
    made = {**_environment(_template("made")), "DPD_BUCKET": "left"}
    assert _environment(_template("left-by-an-attempt")) == made


def _uses(statements: list[Any], key: str) -> dict[str, Any]:
    """Return actions on a key, each with its condition."""
    return {
        action: statement["Condition"]
        for statement in statements
        if statement["Resource"] == key
        for action in ([statement["Action"]] if isinstance(statement["Action"], str) else statement["Action"])
    }


def test_a_made_bucket_is_encrypted_with_the_named_key() -> None:
    (models,) = [
        body for key, body in resources(_template("with-keys"), "AWS::S3::Bucket").items() if "Models" in key
    ]
    assert models["Properties"]["BucketEncryption"]["ServerSideEncryptionConfiguration"] == [
        {
            "BucketKeyEnabled": True,
            "ServerSideEncryptionByDefault": {"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": KEY},
        }
    ]


def test_readers_and_the_import_use_each_key_through_s3_of_its_region_only() -> None:
    stack, template = _synthesized("with-keys")
    here = {"StringEquals": {"kms:ViaService": "s3.us-east-1.amazonaws.com"}}
    there = {"StringEquals": {"kms:ViaService": "s3.eu-west-1.amazonaws.com"}}
    imports = _statements(template, "ModelImport")
    assert _uses(imports, KEY) == {"kms:Decrypt": here, "kms:GenerateDataKey": here}
    assert _uses(imports, THEIR_KEY) == {"kms:Decrypt": there}
    readers = [stack.resolve(statement.to_json()) for statement in stack.store.read_statements()]
    assert _uses(readers, KEY) == {"kms:Decrypt": here}


def test_without_a_key_nobody_gets_one() -> None:
    stack, template = _synthesized("made")
    readers = [stack.resolve(statement.to_json()) for statement in stack.store.read_statements()]
    assert '"s3.' not in json.dumps([*readers, *_statements(template, "ModelImport")])


def test_the_made_bucket_is_private_versioned_logged_and_outlives_its_stack() -> None:
    (models,) = [
        body for key, body in resources(_template("made"), "AWS::S3::Bucket").items() if "Models" in key
    ]
    assert models["Properties"]["VersioningConfiguration"] == {"Status": "Enabled"}
    assert models["Properties"]["LoggingConfiguration"]["LogFilePrefix"] == "models/"
    # a first creation that fails late cannot delete a bucket with weights, and the next one needs another name
    assert models["DeletionPolicy"] == "Retain"
    assert "BucketName" not in models["Properties"]


def test_the_made_bucket_is_what_rendered_objects_name() -> None:
    stack, template = _synthesized("made")
    (name,) = [key for key, body in resources(template, "AWS::S3::Bucket").items() if "Models" in key]
    assert set(stack.store.bindings) == {Binding.MODEL_BUCKET}
    assert stack.resolve(stack.store.bindings[Binding.MODEL_BUCKET]) == {"Ref": name}
    assert (
        model_argument(ready())
        == f"{Binding.MODEL_BUCKET.placeholder.join(['s3://', ''])}/{stack.store.prefix}"
    )


def test_a_given_bucket_is_neither_made_nor_imported_into() -> None:
    template = _template("given")
    assert [key for key in resources(template, "AWS::S3::Bucket") if "Models" in key] == []
    assert resources(template, "Custom::DpdModelImport") == {}


def test_a_given_bucket_is_filled_when_an_origin_is_named() -> None:
    template = _template("given-and-filled")
    assert _environment(template) == {
        "DPD_ORIGIN": "s3://theirs/models/llama",
        "DPD_BUCKET": "mine",
        "DPD_PREFIX": "llama",
        "DPD_MANIFEST_KEY": "llama.manifest.json",
        "DPD_TOKEN_SECRET": "",
    }
    objects = _allowed(template, "ModelImportBuildRole", "s3:Get")["s3:GetObject"]
    assert '"arn:aws:s3:::theirs/models/llama/*"' in objects
    assert "theirs/*" not in objects
    assert "arn:aws:s3:::mine/llama/*" in _allowed(template, "ModelImportBuildRole", "s3:")["s3:PutObject"]


@pytest.mark.parametrize(
    "source",
    [
        HuggingFaceSource(type="huggingface"),
        VolumeSource(type="volume", claim="weights"),
        FsxSource(type="fsx", file_system_id="fs-0123456789abcdef0"),
    ],
    ids=lambda source: source.type,
)
def test_a_source_without_a_bucket_is_refused(source: Any) -> None:
    with pytest.raises(ValueError, match="has no model bucket"):
        _Stack(changed(ready(), model__source=source))


def test_the_import_is_told_repository_commit_and_marker() -> None:
    environment = _environment(_template("made"))
    assert environment["DPD_ORIGIN"] == f"hf://meta-llama/Llama-3.3-70B-Instruct@{REVISION}"
    assert environment["DPD_PREFIX"] == FOLDER
    assert environment["DPD_MANIFEST_KEY"] == f"{FOLDER}.manifest.json"


def test_the_import_starts_at_once_and_its_end_is_waited_for_elsewhere() -> None:
    template = _template("made")
    name, started = only(template, "Custom::DpdModelImport")
    handle, _ = only(template, "AWS::CloudFormation::WaitConditionHandle")
    condition = only(template, "AWS::CloudFormation::WaitCondition")[1]
    assert started["Properties"]["WaitHandle"] == {"Ref": handle}
    assert int(started["Properties"]["ServiceTimeout"]) <= 600
    assert condition["Properties"]["Handle"] == {"Ref": handle}
    assert name in condition["DependsOn"]
    project = only(template, "AWS::CodeBuild::Project")[1]["Properties"]
    waited = int(condition["Properties"]["Timeout"])
    assert (project["TimeoutInMinutes"] + project["QueuedTimeoutInMinutes"]) * 60 < waited <= 12 * 3600


def test_another_revision_is_waited_for_anew() -> None:
    def ids(deployment: Deployment) -> set[str]:
        template = synthesized(_Stack(deployment))
        return {
            *resources(template, "AWS::CloudFormation::WaitConditionHandle"),
            *resources(template, "AWS::CloudFormation::WaitCondition"),
        }

    before = ids(ready())
    assert ids(ready()) == before
    assert not ids(changed(ready(), model__revision="0" * 40)) & before


def test_the_import_needs_no_cluster() -> None:
    template = _template("made")
    assert "VpcConfig" not in only(template, "AWS::CodeBuild::Project")[1]["Properties"]
    assert {body["Type"] for body in template["Resources"].values()} & {
        "AWS::EKS::Cluster",
        "AWS::EC2::SecurityGroup",
    } == set()


def test_the_import_writes_the_models_folder_and_deletes_only_the_marker() -> None:
    allowed = _allowed(_template("made"), "ModelImportBuildRole", "s3:")
    assert FOLDER in allowed["s3:PutObject"]
    assert allowed["s3:DeleteObject"].count("/") == allowed["s3:DeleteObject"].count(f"/{FOLDER}") + 2
    assert f"{FOLDER}.manifest.json" in allowed["s3:DeleteObject"]
    assert "s3:DeleteObjectVersion" not in allowed


def test_the_program_that_is_uploaded_is_complete() -> None:
    stack = _Stack(ready())
    assembly = stack.node.root.synth()  # type: ignore[attr-defined]
    folders = [
        {path.name for path in Path(assembly.directory, asset).iterdir()}
        for asset in (path.name for path in Path(assembly.directory).glob("asset.*") if path.is_dir())
    ]
    assert {"buildspec.yml", "hyperpod_dpd", "requirements.txt"} in folders


def test_the_build_calls_the_program_with_what_the_project_is_given() -> None:
    program = Path(import_module.__file__).parent / "program"
    specification = yaml.safe_load((program / "buildspec.yml").read_text(encoding="utf-8"))
    command = specification["phases"]["build"]["commands"][-1]
    for name in _environment(_template("made")):
        assert f'"${name}"' in command
    assert "--require-hashes" in specification["phases"]["install"]["commands"][-1]


def test_a_token_is_read_by_the_import_and_never_in_its_variables() -> None:
    template = _template("made-with-token")
    assert _environment(template)["DPD_TOKEN_SECRET"] == OWN
    readable = _allowed(template, "ModelImportBuildRole", "secretsmanager:")
    (secret,) = resources(template, "AWS::SecretsManager::Secret")
    assert set(readable) == {"secretsmanager:DescribeSecret", "secretsmanager:GetSecretValue"}
    assert json.loads(readable["secretsmanager:GetSecretValue"]) == {"Ref": secret}
    assert _allowed(_template("given-and-filled"), "ModelImportBuildRole", "secretsmanager:") == {}


def test_a_gated_model_is_imported_with_a_secret_of_the_deployments_own() -> None:
    assert _environment(_template("made"))["DPD_TOKEN_SECRET"] == OWN
    assert only(_template("made"), "AWS::SecretsManager::Secret")[1]["Properties"]["Name"] == OWN


def test_own_secrets_are_made_empty_with_a_key_of_their_own() -> None:
    template = _template("made-with-token")
    secret = only(template, "AWS::SecretsManager::Secret")[1]
    assert secret["Properties"]["Name"] == OWN
    assert not {"SecretString", "GenerateSecretString"} & set(secret["Properties"])
    assert "SecretsKey" in json.dumps(secret["Properties"]["KmsKeyId"])
    assert secret["DeletionPolicy"] == "RetainExceptOnCreate"
    # one that somebody else owns is named and not made
    assert "mine/api-keys" not in json.dumps(resources(template, "AWS::SecretsManager::Secret"))


def test_the_secrets_say_how_they_are_filled() -> None:
    stack, template = _synthesized("made-with-token")
    assert stack.secrets.fill_commands == (f"dpd secret set {OWN} --region us-east-1",)
    # an output of a construct would carry a hash in its name; the stack that shows it names it
    assert "Outputs" not in template
    assert _synthesized("given-and-filled")[0].secrets.fill_commands == ()


def test_every_named_secret_is_readable_and_none_beside() -> None:
    stack, _ = _synthesized("made-with-token")
    read, decrypt, of_given = (
        stack.resolve(statement.to_json()) for statement in stack.secrets.read_statements()
    )
    own, given = read["Resource"]
    assert "Ref" in own
    assert given["Fn::Join"][1][-1].endswith(":secret:mine/api-keys-??????")
    via_service = {"StringEquals": {"kms:ViaService": "secretsmanager.us-east-1.amazonaws.com"}}
    assert decrypt["Condition"] == via_service
    # whichever key a given secret has, it decrypts that secret and nothing else
    context = of_given["Condition"].pop("ArnLike")
    assert context == {"kms:EncryptionContext:SecretARN": [given]}
    assert of_given["Condition"] == via_service
    assert of_given["Action"] == "kms:Decrypt"


def test_a_secret_named_by_its_arn_is_readable_as_it_is() -> None:
    arn = "arn:aws:secretsmanager:us-east-1:111122223333:secret:keys-AbCdEf"
    stack = cdk.Stack(app(), "S", env=cdk.Environment(region="us-east-1"))
    secrets = DeploymentSecrets(
        stack,
        "Secrets",
        deployment=changed(ready(), model__source=S3Source(bucket="mine"), routing__api_keys_secret=arn),
        removal_policy=RETAIN,
    )
    read, decrypt = (stack.resolve(statement.to_json()) for statement in secrets.read_statements())
    assert read["Resource"] == arn
    # the key is one of the account that has the secret
    assert decrypt["Resource"] == "arn:aws:kms:us-east-1:111122223333:key/*"
    assert decrypt["Condition"]["ArnLike"] == {"kms:EncryptionContext:SecretARN": [arn]}


def test_the_file_system_shows_the_bucket_in_one_direction() -> None:
    stack, template = _synthesized("fsx")
    file_system = only(template, "AWS::FSx::FileSystem")[1]["Properties"]
    assert (file_system["StorageCapacity"], file_system["SubnetIds"]) == (2400, ["subnet-gpu"])
    association = only(template, "AWS::FSx::DataRepositoryAssociation")[1]["Properties"]
    assert association["FileSystemPath"] == "/"
    assert "s3://" in json.dumps(association["DataRepositoryPath"])
    assert association["S3"] == {"AutoImportPolicy": {"Events": ["NEW", "CHANGED", "DELETED"]}}
    assert {binding.name for binding in stack.files.bindings} == {
        "FSX_FILE_SYSTEM_ID",
        "FSX_DNS_NAME",
        "FSX_MOUNT_NAME",
    }


def test_the_file_system_is_linked_once_the_model_is_there_and_mountable_once_its_rules_are() -> None:
    template = _template("fsx")
    condition, _ = only(template, "AWS::CloudFormation::WaitCondition")
    assert condition in only(template, "AWS::FSx::DataRepositoryAssociation")[1]["DependsOn"]
    rules = {*resources(template, "AWS::EC2::SecurityGroupIngress")} | {
        *resources(template, "AWS::EC2::SecurityGroupEgress")
    }
    assert rules <= set(only(template, "AWS::FSx::FileSystem")[1]["DependsOn"])


def test_lustre_and_nothing_else_passes_between_file_system_and_nodes() -> None:
    template = _template("fsx")
    (own,) = resources(template, "AWS::EC2::SecurityGroup")
    itself = {"Fn::GetAtt": [own, "GroupId"]}

    def name(group: Any) -> str:
        return "itself" if group == itself else group

    opened = {
        (name(rule["SourceSecurityGroupId"]), name(rule["GroupId"]), rule["FromPort"], rule["ToPort"])
        for rule in (
            body["Properties"] for body in resources(template, "AWS::EC2::SecurityGroupIngress").values()
        )
    }
    ends = [("itself", "itself")]
    for client in ("sg-efa", "sg-cluster"):
        ends += [(client, "itself"), ("itself", client)]
    # FSx user guide, limit-access-security-groups: 988 and 1018 to 1023, in both directions
    assert opened == {(*end, *ports) for end in ends for ports in ((988, 988), (1018, 1023))}


@pytest.mark.parametrize("source", [S3Source(), FsxSource(type="fsx", file_system_id="fs-0123456789abcdef0")])
def test_a_file_system_that_is_not_to_be_made_is_refused(source: Any) -> None:
    stack = cdk.Stack(app(), "S", env=cdk.Environment(region="us-east-1"))
    store = ModelStore(
        stack,
        "ModelStore",
        deployment=ready(),
        access_logs=AccessLogs(stack, "AccessLogs", removal_policy=RETAIN),
        removal_policy=RETAIN,
    )
    with pytest.raises(ValueError, match="makes no file system"):
        ModelFileSystem(
            stack,
            "Files",
            deployment=changed(ready(), model__source=source),
            store=store,
            vpc_id="vpc-1",
            subnet_id="subnet-1",
            client_security_group_ids=["sg-efa"],
            removal_policy=RETAIN,
        )
