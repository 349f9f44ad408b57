"""The project's own images: built in the account, or given by digest."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import aws_cdk as cdk
from aws_cdk import aws_s3_assets as assets
from constructs import Construct, IDependable

from hyperpod_dpd.builds import BuildProject, BuildRun, BuildRunner, BuildWait
from hyperpod_dpd.derive.builds import IMAGE_MACHINES
from hyperpod_dpd.derive.images import IMAGE_PREFIX, PROJECT_IMAGES, images_built
from hyperpod_dpd.images.context import excluded, sources_of, stage
from hyperpod_dpd.images.registry import account_registry, push_statements
from hyperpod_dpd.serving.bindings import Binding
from hyperpod_dpd.spec import Deployment
from hyperpod_dpd.spec.arguments import checked

_BINDINGS: Final = {
    "worker": Binding.WORKER_IMAGE,
    "router": Binding.ROUTER_IMAGE,
    "proof": Binding.PROOF_IMAGE,
    "benchmark": Binding.BENCHMARK_IMAGE,
}
_TIMEOUT_MINUTES: Final = 180
_QUEUE_MINUTES: Final = 480
"""A new account runs one large build at a time, and the model's import may be the first."""


class ProjectImages(Construct):
    """One build for every image that the deployment builds.

    The tag of a build is the digest of the files that its Dockerfile copies, and tags are immutable: an image that is
    there is not built again, and what was built is what is run, by digest. The repositories lie below `hyperpod-dpd/`,
    outlive every stack and are shared by the deployments of an account: neither a stack that is rolled back nor a second
    deployment builds what another one has built.

    Attributes:
        bindings: every image by digest, built or given.
        ready: what to depend on to have all of them.
        revision: changes whenever an image may change; known at synthesis.
    """

    bindings: Mapping[Binding, str]
    ready: IDependable
    revision: str

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
        """Create the builds.

        Args:
            scope: where the construct lives.
            construct_id: its id.
            deployment: whose images they are.
            builds: runs the builds.
            sources: folder with `images/` and what its Dockerfiles copy: the root of this project's repository.

        Raises:
            FileNotFoundError: `sources` holds no Dockerfile of an image that is to be built.
            UnknownCatalogEntryError: `serving.engine.name` is not in the catalog.
        """
        super().__init__(scope, construct_id)
        given = {name: getattr(deployment.platform.images, name) for name in PROJECT_IMAGES}
        self.bindings = {_BINDINGS[name]: image for name, image in given.items() if image is not None}
        tags = dict[str, str]()
        for name in images_built(deployment):
            wait, tags[name] = self._build(name, deployment, builds, sources)
            self.bindings[_BINDINGS[name]] = wait.result
        self.ready = self
        self.revision = hashlib.sha256(json.dumps([given, tags], sort_keys=True).encode()).hexdigest()[:12]

    def _build(
        self, name: str, deployment: Deployment, builds: BuildRunner, sources: Path
    ) -> tuple[BuildWait, str]:
        scope = Construct(self, name.capitalize())
        stack = cdk.Stack.of(self)
        repository = f"{IMAGE_PREFIX}/{name}"
        source = _asset(scope, name, sources)
        project = BuildProject(
            scope,
            "Build",
            description=f"Builds the image {name} of {deployment.name}",
            source=source,
            build_logs=builds.build_logs,
            buildspec="images/buildspec.yml",
            timeout_minutes=_TIMEOUT_MINUTES,
            queue_minutes=_QUEUE_MINUTES,
            machine=IMAGE_MACHINES[name],
            runs_docker=True,
        )
        for statement in push_statements(stack, repository):
            project.role.add_to_policy(statement)
        wait = BuildWait(scope, "Wait")
        BuildRun(
            scope,
            "Run",
            runner=builds,
            project=project,
            resource_type="Custom::DpdImage",
            physical_id=f"hyperpod-dpd/{deployment.name}/{name}",
            environment={
                "IMAGE": name,
                "REPOSITORY": f"{account_registry(stack)}/{repository}",
                "TAG": source.asset_hash,
            },
            exports=["IMAGE_URI"],
            wait=wait,
        )
        return wait, source.asset_hash


def _asset(scope: Construct, name: str, sources: Path) -> assets.Asset:
    with TemporaryDirectory() as folder:
        stage(sources_of(name, sources), sources, Path(folder))
        return assets.Asset(
            scope, "Sources", path=folder, exclude=excluded(sources), ignore_mode=cdk.IgnoreMode.DOCKER
        )
