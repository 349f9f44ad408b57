"""Copies of public images and charts in the account's registry."""

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import aws_cdk as cdk
from aws_cdk import aws_s3_assets as assets
from constructs import Construct, IDependable

from hyperpod_dpd.builds import BuildProject, BuildRun, BuildRunner, BuildWait
from hyperpod_dpd.catalog.charts import HELM
from hyperpod_dpd.derive.builds import MIRROR_MACHINE
from hyperpod_dpd.derive.mirror import MIRROR_PREFIX, cluster_charts, public_images, qualified
from hyperpod_dpd.images.context import stage
from hyperpod_dpd.images.registry import account_registry, push_statements
from hyperpod_dpd.serving.bindings import Binding
from hyperpod_dpd.spec import Deployment
from hyperpod_dpd.spec.arguments import checked

_SCRIPTS: Final = ("images/mirror.sh", "images/mirror.yml", "images/repository.sh")
_TIMEOUT_MINUTES: Final = 120


class PublicImageMirror(Construct):
    """Copies every public image and chart of a deployment, from where the internet is.

    The copies lie below `mirror/`, outlive every stack and are shared by the deployments of an account; their
    repositories are immutable, so that a tag stays what it was when it was copied.

    Attributes:
        registry: the account's registry.
        bindings: what rendered objects need of it.
        ready: what to depend on before a copy is pulled.
    """

    registry: str
    bindings: Mapping[Binding, str]
    ready: IDependable

    @checked
    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        deployment: Deployment,
        builds: BuildRunner,
        sources: Path,
    ) -> None:
        """Create the build that copies.

        Args:
            scope: where the construct lives.
            construct_id: its id.
            deployment: whose images are copied.
            builds: runs the build.
            sources: folder with `images/mirror.sh`: the root of this project's repository.

        Raises:
            UnknownCatalogEntryError: `serving.engine.name` is not in the catalog.
            ValueError: the deployment does not mirror images.
        """
        super().__init__(scope, construct_id)
        if not deployment.platform.images.mirror_public_images:
            raise ValueError(
                f"deployment `{deployment.name}` pulls public images from where they are: given "
                "`platform.images.mirror_public_images: false`. help: leave the mirror out"
            )
        stack = cdk.Stack.of(self)
        self.registry = account_registry(stack)
        self.bindings = {Binding.MIRROR_REGISTRY: self.registry}
        project = BuildProject(
            self,
            "Build",
            description=f"Copies the public images of {deployment.name}",
            source=_asset(self, sources),
            build_logs=builds.build_logs,
            buildspec="images/mirror.yml",
            timeout_minutes=_TIMEOUT_MINUTES,
            machine=MIRROR_MACHINE,
            runs_docker=True,
        )
        for statement in push_statements(stack, f"{MIRROR_PREFIX}/*"):
            project.role.add_to_policy(statement)
        charts = [f"{chart.archive.url}={chart.archive.sha256}" for chart in cluster_charts(deployment)]
        wait = BuildWait(self, "Wait")
        BuildRun(
            self,
            "Run",
            runner=builds,
            project=project,
            resource_type="Custom::DpdImageMirror",
            physical_id=f"{deployment.name}/mirror",
            environment={
                "MIRROR_REGISTRY": self.registry,
                "MIRROR_IMAGES": " ".join(map(qualified, public_images(deployment))),
                "MIRROR_CHARTS": " ".join(charts),
                "HELM_URL": HELM.url,
                "HELM_SHA256": HELM.sha256,
            },
            wait=wait,
        )
        self.ready = wait.condition


def _asset(scope: Construct, sources: Path) -> assets.Asset:
    with TemporaryDirectory() as folder:
        stage(_SCRIPTS, sources, Path(folder))
        return assets.Asset(scope, "Sources", path=folder)
