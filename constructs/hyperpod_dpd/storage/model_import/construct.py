"""The construct: a build project, its rights, its run, and the wait for its end.

Why a build and not a Job on the cluster. A model of 140 GB takes ten minutes to an hour, and a deployment of an empty
account waits longer than that for its nodes: a build needs neither nodes nor cluster nor an image of ours, so that the
weights are there when the first worker starts, and no GPU waits for them. A Job would need a system node with a disk for
the largest shards, or a GPU node at its price, and could start only when the cluster is complete. A build has a disk of
its own (128 GB at the size used here, CodeBuild user guide, compute types), up to 36 hours, and costs 0.02 USD a minute.
What it does not have is a memory of the run before: the program finds that in the bucket.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3_assets as assets
from constructs import Construct, IDependable

from hyperpod_dpd.builds import BuildProject, BuildRun, BuildRunner, BuildWait
from hyperpod_dpd.derive.builds import IMPORT_MACHINE
from hyperpod_dpd.derive.model_store import import_origin
from hyperpod_dpd.derive.secrets import import_token
from hyperpod_dpd.security.secrets import DeploymentSecrets
from hyperpod_dpd.serving.model_source import repository
from hyperpod_dpd.spec import Deployment, FolderOrigin, HubOrigin
from hyperpod_dpd.spec.arguments import checked
from hyperpod_dpd.spec.model import ModelOrigin
from hyperpod_dpd.storage.model_import.package import stage
from hyperpod_dpd.storage.model_store import ModelStore
from hyperpod_dpd.storage.object_key import READ, key_statements

_TIMEOUT_MINUTES = 520
"""Two hours for an empty token, and six and a half for a model: 800 GB at 34 MB/s."""
_QUEUE_MINUTES = 180
"""A new account runs one large build at a time, and that of the worker's image may be the first."""


class ModelImport(Construct):
    """Copies the model into its bucket, once for every revision.

    Attributes:
        started: the custom resource, which is complete as soon as the build runs.
        imported: what to depend on to have the model: it is complete once the completion marker is written, and fails
            with the program's own words.
    """

    started: cdk.CustomResource
    imported: IDependable

    @checked
    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        deployment: Deployment,
        store: ModelStore,
        secrets: DeploymentSecrets,
        builds: BuildRunner,
    ) -> None:
        """Create and start it; it waits for nothing but an empty token.

        Args:
            scope: where the construct lives.
            construct_id: its id.
            deployment: whose model is imported.
            store: where it goes.
            secrets: has the token of a gated model.
            builds: runs the build.

        Raises:
            ValueError: the deployment imports nothing.
            UnknownCatalogEntryError: neither the deployment nor the catalog names a repository.
        """
        super().__init__(scope, construct_id)
        origin = import_origin(deployment)
        if origin is None:
            raise ValueError(
                f"deployment `{deployment.name}` imports no model: given "
                f"`model.source.type: {deployment.model.source.type}`. help: leave the import out, or set "
                "`model.imported_from`"
            )
        token = import_token(deployment)
        project = BuildProject(
            self,
            "Build",
            description=f"Imports the model of {deployment.name}",
            source=_asset(self),
            build_logs=builds.build_logs,
            timeout_minutes=_TIMEOUT_MINUTES,
            queue_minutes=_QUEUE_MINUTES,
            machine=IMPORT_MACHINE,
        )
        for statement in [*store.write_statements(), *_read_statements(cdk.Stack.of(self), origin)]:
            project.role.add_to_policy(statement)
        if token is not None:
            secrets.grant_read(project.role, names=[token])
        wait = BuildWait(self, "Wait")
        run = BuildRun(
            self,
            "Run",
            runner=builds,
            project=project,
            resource_type="Custom::DpdModelImport",
            physical_id=f"{deployment.name}/model",
            environment={
                "DPD_ORIGIN": _address(deployment, origin),
                "DPD_BUCKET": store.bucket.bucket_name,
                "DPD_PREFIX": store.prefix,
                "DPD_MANIFEST_KEY": store.manifest_key,
                "DPD_TOKEN_SECRET": token or "",
            },
            wait=wait,
        )
        self.started = run.resource
        self.started.node.add_dependency(store)
        self.imported = wait.condition


def _asset(scope: Construct) -> assets.Asset:
    with TemporaryDirectory() as folder:
        stage(Path(folder))
        return assets.Asset(scope, "Program", path=folder)


def _address(deployment: Deployment, origin: ModelOrigin) -> str:
    match origin:
        case FolderOrigin(uri=uri):
            return uri
        case HubOrigin():
            return f"hf://{repository(deployment)}@{deployment.model.revision}"


def _read_statements(stack: cdk.Stack, origin: ModelOrigin) -> list[iam.PolicyStatement]:
    if not isinstance(origin, FolderOrigin):
        return []
    bucket, _, folder = origin.uri.removeprefix("s3://").partition("/")
    folder = folder.strip("/")
    arn = f"arn:{stack.partition}:s3:::{bucket}"
    return [
        iam.PolicyStatement(
            actions=["s3:ListBucket"],
            resources=[arn],
            conditions={"StringLike": {"s3:prefix": [f"{folder}/*"]}},
        ),
        iam.PolicyStatement(actions=["s3:GetObject"], resources=[f"{arn}/{folder}/*"]),
        *key_statements(origin.kms_key_arn, READ),
    ]
