"""The proof as a Job: it runs once per release, when the workers are ready, and its verdict is the release's."""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import cdk8s_plus_27 as kplus
from cdk8s import App, Chart
from constructs import Construct

from hyperpod_dpd.derive import resolve
from hyperpod_dpd.derive.backend import on_backend
from hyperpod_dpd.derive.operator_endpoint import OPERATOR_NAMESPACE, ROUTING_PORT, routing_service
from hyperpod_dpd.evidence.proof.target import CHAT, COMPLETIONS
from hyperpod_dpd.observability.exporters import exporters_namespace
from hyperpod_dpd.observability.jobs import EFA_PORT
from hyperpod_dpd.observability.scraping import OPERATOR_ROLE_LABEL
from hyperpod_dpd.serving import names
from hyperpod_dpd.serving.bindings import Binding
from hyperpod_dpd.serving.flows import reads_workspace
from hyperpod_dpd.serving.images import pulled
from hyperpod_dpd.serving.names import Component
from hyperpod_dpd.serving.objects import api_object, metadata
from hyperpod_dpd.serving.pod import Container, Volume, empty_dir, pod_spec
from hyperpod_dpd.serving.profile import Profile
from hyperpod_dpd.serving.render import Rendering, rendered_files, write
from hyperpod_dpd.serving.router import USER_ID, off_gpu_nodes
from hyperpod_dpd.serving.router_arguments import API_KEYS_DIRECTORY, drain_grace_seconds
from hyperpod_dpd.serving.secrets import API_KEYS_SECRET
from hyperpod_dpd.spec import Deployment

PROOF: Final = "proof"
"""Name of the rendering, of the Job's ServiceAccount and of its rights."""

PROVEN: Final = (Profile.SELF_MANAGED, Profile.OPERATOR)
"""Profiles that hand over, and can be proven."""

REQUEST_SECONDS: Final = 90
TIMEOUT_SECONDS: Final = 300
"""Longest proof: prompts, and waiting for counters that come late."""

START_SECONDS: Final = 300
"""For the image's pull, on top, before the Job is ended from outside."""

MEMORY_MIB: Final = 256

_DRAIN_MARGIN_SECONDS: Final = 15


class NotProvableError(ValueError):
    """A profile hands nothing over."""


class ProofJob(Construct):
    """A Job with what it may do: list the workers' pods, and create an Event.

    Its NetworkPolicy is one of the profile's: `hyperpod_dpd.serving.flows`.
    """

    def __init__(
        self,
        scope: Construct,
        identifier: str,
        *,
        deployment: Deployment,
        profile: Profile,
        revision: str,
    ) -> None:
        """Create the objects.

        Args:
            scope: chart that takes the objects.
            identifier: id of this construct in `scope`.
            deployment: the deployment.
            profile: what is proven.
            revision: changes with what is proven. A Job cannot be changed, so another revision is another Job.

        Raises:
            NotProvableError: the profile hands nothing over.
            UnresolvedError: something that the deployment names does not exist or does not go together.
        """
        super().__init__(scope, identifier)
        deployment = on_backend(deployment, profile.backend)
        self._deployment = deployment
        self._namespace = names.system_namespace(deployment)
        self._labels = names.labels(deployment, Component.PROOF)
        arguments = proof_arguments(deployment, profile)
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
                "activeDeadlineSeconds": TIMEOUT_SECONDS + START_SECONDS,
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
        given = self._deployment.platform.images.jobs
        size = {"cpu": "250m", "memory": f"{MEMORY_MIB}Mi"}
        container = Container(
            name=PROOF,
            image=pulled(given, self._deployment) if given else Binding.JOBS_IMAGE.placeholder,
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


def render_proof(deployment: Deployment, profile: Profile, *, revision: str) -> Rendering:
    """Return the Job that proves `profile` of `deployment`.

    It is not part of the profile: it shall run once workers are ready.

    Raises:
        NotProvableError: the profile hands nothing over.
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


def proof_arguments(deployment: Deployment, profile: Profile) -> tuple[str, ...]:
    """Return the command line of the proof of `profile` on its cluster.

    Raises:
        NotProvableError: the profile hands nothing over.
        UnresolvedError: something that the deployment names does not exist or does not go together.
    """
    if profile not in PROVEN:
        raise NotProvableError(
            f"profile `{profile}` hands nothing over, so there is nothing to prove. help: prove "
            + " or ".join(f"`{each}`" for each in PROVEN)
        )
    deployment = on_backend(deployment, profile.backend)
    pairs = [
        *target_arguments(deployment, profile),
        *_places(deployment, profile),
        *_cluster_counters(deployment),
    ]
    return (*(f"--{name}={value}" for name, value in pairs), *_switches(profile), "--event")


def target_arguments(deployment: Deployment, profile: Profile) -> Iterator[tuple[str, str]]:
    """Yield what the proof has to know about `deployment`, wherever it runs from."""
    facts = resolve(deployment)
    model = deployment.model
    operated = profile is Profile.OPERATOR
    host = (
        f"{routing_service(deployment)}.{OPERATOR_NAMESPACE}.svc.cluster.local:{ROUTING_PORT}"
        if operated
        else f"{names.router_host(deployment)}:{names.ROUTER_PORT}"
    )
    yield "url", f"http://{host}"
    yield "model", model.served_name or model.name
    yield "threshold", str(deployment.routing.threshold_tokens)
    yield "path", _path(deployment) if operated else COMPLETIONS
    transfer = "lmcache-pd" if operated else deployment.serving.transfer.type
    yield "transfer", transfer
    yield "tensor-parallel", str(facts.tensor_parallel)
    yield "max-model-len", str(facts.max_model_len_tokens)
    yield "kv-bytes-per-token", str(facts.kv_bytes_per_token_per_rank * facts.tensor_parallel)
    if transfer == "lmcache-pd":
        yield "chunk-tokens", str(facts.chunk_tokens)
        yield "buffer-chunks", str(facts.decode.pd_buffer.chunks)
        yield "drain-seconds", str(drain_grace_seconds(deployment) + _DRAIN_MARGIN_SECONDS)
    yield "request-seconds", str(REQUEST_SECONDS)
    yield "timeout-seconds", str(TIMEOUT_SECONDS)


def _path(deployment: Deployment) -> str:
    """Return the path that the operator's router serves; of any other the proof knows no answer."""
    path = "/" + deployment.serving.operator.invocation_path.lstrip("/")
    return COMPLETIONS if path == COMPLETIONS else CHAT


def _places(deployment: Deployment, profile: Profile) -> Iterator[tuple[str, str]]:
    yield "workers-namespace", names.workers_namespace(deployment)
    for component in (Component.PREFILL, Component.DECODE):
        labels = (
            {OPERATOR_ROLE_LABEL: component.value}
            if profile is Profile.OPERATOR
            else names.selector(deployment, component)
        )
        yield f"{component.value}-selector", _selector(labels)
    yield "worker-port", str(names.WORKER_HTTP_PORT)
    if profile is Profile.OPERATOR:
        yield "log-container", f"{Component.DECODE.value}-"
    elif deployment.platform.network_policies == "enforced":
        yield "forbidden-port", str(resolve(deployment).decode_ports.init_base)
    if deployment.routing.api_keys_secret is not None and profile is Profile.SELF_MANAGED:
        yield "api-key-file", f"{API_KEYS_DIRECTORY}/{names.API_KEYS_KEY}"


def _cluster_counters(deployment: Deployment) -> Iterator[tuple[str, str]]:
    if deployment.platform.exporters == "manifests":
        yield "exporters-namespace", exporters_namespace(deployment)
        yield "exporters-selector", _selector(names.selector(deployment, Component.EFA_EXPORTER))
        yield "exporters-port", str(EFA_PORT)
    if reads_workspace(deployment):
        yield "efa-query-url", Binding.AMP_WORKSPACE_URL.placeholder
        yield "efa-query-region", deployment.region


def _switches(profile: Profile) -> tuple[str, ...]:
    return ("--no-router-metrics",) if profile is Profile.OPERATOR else ()


def _selector(labels: dict[str, str]) -> str:
    return ",".join(f"{name}={value}" for name, value in labels.items())


def _field(name: str, path: str) -> dict[str, Any]:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}
