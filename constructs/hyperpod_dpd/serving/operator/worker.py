"""`worker` and the roles of `pdSpec`: image, arguments, environment and resources of the operator's pods."""

from typing import Any, Final

from hyperpod_dpd.catalog.operator import REFERENCE
from hyperpod_dpd.derive import RoleFacts, ServingFacts
from hyperpod_dpd.serving import names
from hyperpod_dpd.serving.bindings import Binding
from hyperpod_dpd.serving.images import pulled
from hyperpod_dpd.serving.operator.given import given
from hyperpod_dpd.serving.operator.weights import model_volume_mount
from hyperpod_dpd.spec import Deployment, Role

_CACHED_TOKENS: Final = "--enable-prompt-tokens-details"
"""AWS's router does not say how it served a request: what its decoder had of the prompt does."""


def worker(deployment: Deployment, facts: ServingFacts, *, disaggregates: bool) -> dict[str, Any]:
    """Return `worker`: what pods of both roles have in common, or all of a colocated one."""
    operator = deployment.serving.operator
    limits = given(
        maxConcurrentRequests=operator.max_concurrent_requests_per_pod,
        maxQueueSize=operator.max_queued_requests_per_pod,
    )
    return {
        "image": image(deployment, facts),
        "args": list(_shared(deployment, facts) if disaggregates else _colocated(deployment, facts)),
        "environmentVariables": _environment(deployment, facts, disaggregates=disaggregates),
        "modelInvocationPort": {"name": names.WORKER_HTTP_PORT_NAME, "containerPort": names.WORKER_HTTP_PORT},
        "modelVolumeMount": model_volume_mount(),
        # required, and without effect on the pods of a role: those have resources of their own
        "resources": _resources(facts.tensor_parallel),
        **({"requestLimits": limits} if limits else {}),
    }


def role_spec(deployment: Deployment, facts: ServingFacts, role: Role) -> dict[str, Any]:
    """Return `prefillSpec` or `decodingSpec`."""
    place = facts.role(role)
    gpus = {"nvidia.com/gpu": str(place.gpus)}
    return {
        "replicas": place.replicas,
        "args": list(_role_arguments(deployment, facts, place)),
        "nodeSelector": {names.INSTANCE_GROUP_LABEL: place.group.name},
        # EFA devices and huge pages are the operator's to add
        "resources": {"requests": gpus, "limits": gpus},
    }


def image(deployment: Deployment, facts: ServingFacts) -> str:
    """Return the image of the workers: what the deployment names, what AWS names, or the project's own."""
    known = deployment.serving.engine.image or facts.engine.triple.image or deployment.platform.images.worker
    return pulled(known, deployment) if known else Binding.WORKER_IMAGE.placeholder


def _common(deployment: Deployment, facts: ServingFacts, utilization: float) -> tuple[str, ...]:
    model = deployment.model
    block_size = deployment.serving.transfer.block_size_tokens
    return (
        "--model",
        REFERENCE.model_directory,
        "--host",
        "0.0.0.0",  # noqa: S104 - the pod's own address; the operator's proxy connects to it
        "--port",
        str(names.WORKER_HTTP_PORT),
        "--tensor-parallel-size",
        str(facts.tensor_parallel),
        "--max-model-len",
        str(facts.max_model_len_tokens),
        "--gpu-memory-utilization",
        f"{utilization:g}",
        *(("--kv-cache-dtype", model.kv_cache) if model.kv_cache != "bf16" else ()),
        *(("--block-size", str(block_size)) if block_size is not None else ()),
        *(("--trust-remote-code",) if model.trust_remote_code else ()),
        # the folder stays a name, because AWS's own requests ask for it
        "--served-model-name",
        model.served_name or model.name,
        REFERENCE.model_directory,
    )


def _shared(deployment: Deployment, facts: ServingFacts) -> tuple[str, ...]:
    return _common(deployment, facts, facts.prefill.gpu_memory_utilization)


def _colocated(deployment: Deployment, facts: ServingFacts) -> tuple[str, ...]:
    baseline = deployment.serving.baseline
    most = baseline.max_num_seqs
    return (
        *_common(deployment, facts, baseline.gpu_memory_utilization),
        *(("--max-num-seqs", str(most)) if most is not None else ()),
        _CACHED_TOKENS,
    )


def _role_arguments(deployment: Deployment, facts: ServingFacts, place: RoleFacts) -> tuple[str, ...]:
    """Arguments of one role; the operator appends them, and vLLM takes the later of two."""
    given_worker = deployment.serving.worker(place.role)
    utilization = place.gpu_memory_utilization
    return (
        *(
            ("--gpu-memory-utilization", f"{utilization:g}")
            if utilization != facts.prefill.gpu_memory_utilization
            else ()
        ),
        "--max-num-seqs",
        str(place.max_num_seqs),
        *(
            ("--max-num-batched-tokens", str(place.max_num_batched_tokens))
            if given_worker.max_num_batched_tokens is not None
            else ()
        ),
        *(("--enforce-eager",) if place.enforce_eager else ()),
        # chunks that vLLM has already are received and never freed (LMCache/LMCache issue 2933)
        "--enable-prefix-caching" if place.prefix_caching else "--no-enable-prefix-caching",
        *((_CACHED_TOKENS,) if place.role is Role.DECODE else ()),
        *given_worker.extra_args,
    )


def _environment(deployment: Deployment, facts: ServingFacts, *, disaggregates: bool) -> list[dict[str, str]]:
    variables = {"HF_HOME": REFERENCE.hub_home, "PYTHONHASHSEED": str(facts.hash_seed)}
    if disaggregates:
        variables["PD_BUFFER_SIZE"] = str(facts.decode.pd_buffer.requested_bytes)
        variables["LMCACHE_SAVE_DECODE_CACHE"] = "False"
    variables.update(sorted((deployment.serving.operator.environment or {}).items()))
    return [{"name": name, "value": value} for name, value in variables.items()]


def _resources(gpus: int) -> dict[str, Any]:
    devices = {"nvidia.com/gpu": str(gpus)}
    return {
        "requests": {
            "cpu": str(REFERENCE.cpus_per_gpu * gpus),
            "memory": f"{REFERENCE.memory_gib_per_gpu * gpus}Gi",
            **devices,
        },
        "limits": devices,
    }
