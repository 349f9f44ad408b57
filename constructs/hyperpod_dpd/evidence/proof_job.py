"""The proof as a Job: it runs once per release, when the workers are ready, and its verdict is the release's."""

import hashlib
from pathlib import Path
from typing import Any, Final

import cdk8s_plus_27 as kplus
from cdk8s import App, Chart
from constructs import Construct

from hyperpod_dpd.derive.backend import on_backend
from hyperpod_dpd.evidence.proof_arguments import TIMEOUT_SECONDS, proof_arguments
from hyperpod_dpd.observability.jobs import exporters_namespace
from hyperpod_dpd.serving import names
from hyperpod_dpd.serving.bindings import Binding
from hyperpod_dpd.serving.images import pulled
from hyperpod_dpd.serving.names import Component
from hyperpod_dpd.serving.objects import api_object, metadata
from hyperpod_dpd.serving.pod import Container, Volume, empty_dir, pod_spec
from hyperpod_dpd.serving.profile import Profile
from hyperpod_dpd.serving.render import Rendering, rendered_files, write
from hyperpod_dpd.serving.router import USER_ID, off_gpu_nodes
from hyperpod_dpd.serving.router_arguments import API_KEYS_DIRECTORY, router_grace_seconds
from hyperpod_dpd.serving.secrets import API_KEYS_SECRET
from hyperpod_dpd.spec import Deployment
from hyperpod_dpd.spec.arguments import checked
from hyperpod_dpd.spec.value import NonEmptyStr

PROOF: Final = "proof"
"""Name of the rendering, of the Job's ServiceAccount and of its rights."""

PROVEN: Final = (Profile.SELF_MANAGED, Profile.OPERATOR)
"""Profiles that hand over, and can be proven."""

START_SECONDS: Final = 300
"""For the image's pull, on top, before the Job is ended from outside."""

MEMORY_MIB: Final = 256


class NotProvableError(ValueError):
    """A profile hands nothing over."""


class ProofJob(Construct):
    """A Job with what it may do: list the workers' pods, and create an Event.

    Its NetworkPolicy is one of the profile's: `hyperpod_dpd.serving.flows`.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        deployment: Deployment,
        profile: Profile,
        revision: str,
    ) -> None:
        """Create the objects.

        Args:
            scope: chart that takes the objects.
            construct_id: id of this construct in `scope`.
            deployment: the deployment.
            profile: what is proven.
            revision: changes with what is proven. A Job cannot be changed, so another revision is another Job.

        Raises:
            ValueError: the profile hands nothing over.
            UnresolvedError: something that the deployment names does not exist or does not go together.
        """
        super().__init__(scope, construct_id)
        if profile not in PROVEN:
            raise NotProvableError(
                f"profile `{profile}` hands nothing over, so there is nothing to prove. help: prove "
                + " or ".join(f"`{each}`" for each in PROVEN)
            )
        deployment = on_backend(deployment, profile.backend)
        self._deployment = deployment
        self._namespace = names.system_namespace(deployment)
        self._labels = names.labels(deployment, Component.PROOF)
        arguments = proof_arguments(deployment)
        account = kplus.ServiceAccount(
            self,
            "account",
            metadata=metadata(PROOF, namespace=self._namespace, labels=self._labels),
            automount_token=False,
        )
        self._grant(account, profile)
        api_object(
            self,
            "job",
            api_version="batch/v1",
            kind="Job",
            name=proof_job_name(revision),
            namespace=self._namespace,
            labels=self._labels,
            spec={
                # a second try would only hide a deployment that hands over every other time
                "backoffLimit": 0,
                "activeDeadlineSeconds": router_grace_seconds(deployment) + TIMEOUT_SECONDS + START_SECONDS,
                "template": {
                    "metadata": {"labels": self._labels},
                    "spec": {**self._pod(arguments), "restartPolicy": "Never"},
                },
            },
        )

    def _grant(self, account: kplus.ServiceAccount, profile: Profile) -> None:
        deployment = self._deployment
        read = ["get", "list"]
        self._allow(account, PROOF, self._namespace, {"events": ["create"]})
        logs = {"pods/log": ["get"]} if profile is Profile.OPERATOR else {}
        self._allow(account, PROOF, names.workers_namespace(deployment), {"pods": read, **logs})
        if deployment.platform.exporters == "manifests":
            # the namespace is shared by every deployment of the cluster
            name = f"{PROOF}-{deployment.name}"
            self._allow(account, name, exporters_namespace(deployment), {"pods": read})

    def _allow(
        self, account: kplus.ServiceAccount, name: str, namespace: str, verbs: dict[str, list[str]]
    ) -> None:
        about = metadata(name, namespace=namespace, labels=self._labels)
        role = kplus.Role(self, f"{namespace}-role", metadata=about)
        for resource, allowed in verbs.items():
            kind = kplus.ApiResource.custom(api_group="", resource_type=resource)
            role.allow(allowed, kind)  # type: ignore[arg-type] # jsii leaves the optional member out
        binding = kplus.RoleBinding(self, f"{namespace}-role-binding", metadata=about, role=role)
        binding.add_subjects(account)

    def _pod(self, arguments: tuple[str, ...]) -> dict[str, Any]:
        volumes = [Volume(name="tmp", path="/tmp", source=empty_dir())]  # noqa: S108 - the pod's own
        if self._deployment.routing.api_keys_secret is not None:
            keys = {"secret": {"secretName": API_KEYS_SECRET}}
            volumes.append(Volume(name="api-keys", path=API_KEYS_DIRECTORY, source=keys, read_only=True))
        given = self._deployment.platform.images.proof
        size = {"cpu": "250m", "memory": f"{MEMORY_MIB}Mi"}
        container = Container(
            name=PROOF,
            image=pulled(given, self._deployment) if given else Binding.PROOF_IMAGE.placeholder,
            command=("python", "-m", "hyperpod_dpd.evidence.proof"),
            arguments=arguments,
            environment=(
                _field("POD_NAMESPACE", "metadata.namespace"),
                _field("JOB_NAME", "metadata.labels['batch.kubernetes.io/job-name']"),
            ),
            resources={"requests": size, "limits": size},
            volumes=tuple(volumes),
        )
        return pod_spec(
            service_account=PROOF,
            api_token=True,
            containers=(container,),
            volumes=volumes,
            grace_seconds=5,
            affinity=off_gpu_nodes(self._deployment),
            user=USER_ID,
        )


def proof_job_name(revision: str) -> str:
    """Return the name of the Job that proves `revision`."""
    return f"{PROOF}-{hashlib.sha256(revision.encode()).hexdigest()[:8]}"


@checked
def render_proof(deployment: Deployment, profile: Profile, *, revision: NonEmptyStr) -> Rendering:
    """Return the Job that proves `profile` of `deployment`.

    It is not part of the profile: it shall run once workers are ready.

    Raises:
        ValueError: the profile hands nothing over.
        UnresolvedError: something that the deployment names does not exist or does not go together.
    """
    app = App()
    chart = Chart(app, PROOF, disable_resource_name_hashes=True)
    ProofJob(chart, PROOF, deployment=deployment, profile=profile, revision=revision)
    return Rendering(deployment=deployment, profile=PROOF, files=rendered_files(app))


def write_proof(deployment: Deployment, directory: Path) -> tuple[Path, ...]:
    """Write the proof of what `directory` holds of `deployment` beside its profiles, and return what changed.

    The Job's name follows from the files of the profile, so that another rendering is proven by another Job.

    Raises:
        UnresolvedError: something that the deployment names does not exist or does not go together.
    """
    (profile,) = (each for each in PROVEN if each.backend == deployment.serving.backend)
    files = sorted((directory / deployment.name / profile.value).glob("*.yaml"))
    revision = "".join(file.read_text(encoding="utf-8") for file in files)
    rendering = render_proof(deployment, profile, revision=revision)
    return write(rendering, directory / deployment.name / PROOF)


def _field(name: str, path: str) -> dict[str, Any]:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}
