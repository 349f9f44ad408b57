"""The proof of a profile that runs here."""

import asyncio
import dataclasses
from typing import Final

from hyperpod_dpd.derive import resolve
from hyperpod_dpd.evidence.proof import ProofResult, Target, prove
from hyperpod_dpd.rehearsal.cluster import LocalCluster
from hyperpod_dpd.spec import Deployment, Role

_SIMULATED_STATISTICS_SECONDS: Final = 5.0
"""Real seconds in which simulated engines show what they did; LMCache itself takes 10."""


async def prove_profile(cluster: LocalCluster, deployment: Deployment) -> ProofResult | None:
    """Prove what runs in `cluster`; None where no router is ready."""
    url = cluster.endpoint()
    return None if url is None else await asyncio.to_thread(prove, _target(url, cluster, deployment))


def _target(url: str, cluster: LocalCluster, deployment: Deployment) -> Target:
    facts = resolve(deployment)
    threshold = deployment.routing.threshold_tokens
    transfer = deployment.serving.transfer
    target = Target(
        url=url,
        model=cluster.plan.served_model,
        prefillers=_engine_urls(cluster, Role.PREFILL),
        decoders=_engine_urls(cluster, Role.DECODE) or _engine_urls(cluster, Role.COLOCATED),
        threshold_tokens=threshold if cluster.plan.disaggregates and threshold != "never" else None,
        api_key=cluster.plan.api_key,
        transfer=transfer.type,
        chunk_tokens=facts.chunk_tokens,
        max_model_len_tokens=facts.max_model_len_tokens,
        buffer_chunks=facts.decode.pd_buffer.chunks if transfer.type == "lmcache-pd" else None,
        expects_efa=False,
    )
    if not cluster.engines.simulated:
        # one rank of each
        return target
    return dataclasses.replace(
        target, tensor_parallel=facts.tensor_parallel, statistics_seconds=_SIMULATED_STATISTICS_SECONDS
    )


def _engine_urls(cluster: LocalCluster, role: Role) -> tuple[str, ...]:
    return tuple(pod.engine_url for pod in cluster.with_role(role))
