"""LMCache's configuration file. Its keys follow the declared version; an unknown key is ignored with a warning only."""

from collections.abc import Mapping
from typing import Any, Final

import yaml

from hyperpod_dpd.derive import ServingFacts
from hyperpod_dpd.physics import GIB, PdBuffer
from hyperpod_dpd.serving.names import CONFIG_DIRECTORY, NOTIFICATION_PORT, STATE_DIRECTORY, router_host
from hyperpod_dpd.spec import Deployment, Role

LMCACHE_FILE: Final = "lmcache.yaml"
"""Name of the file in the configuration directory, and of the one that a decoder's launcher writes."""


def lmcache_config_path(role: Role) -> str:
    """Return the file that LMCache reads: a decoder's is written at its start, with the ports of its epoch."""
    directory = STATE_DIRECTORY if role is Role.DECODE else CONFIG_DIRECTORY
    return f"{directory}/{LMCACHE_FILE}"


def lmcache_yaml(deployment: Deployment, facts: ServingFacts, role: Role) -> str | None:
    """Return LMCache's configuration of `role`; None when the deployment does not hand over through LMCache."""
    if deployment.serving.transfer.type != "lmcache-pd":
        return None
    buffer = facts.role(role).pd_buffer
    keys = {
        **_common(deployment, facts, buffer),
        **(_sender(deployment) if role is Role.PREFILL else _receiver()),
        **(_asynchronous(deployment, facts) if facts.engine.transfers_asynchronously else {}),
    }
    return f"{_header(facts, buffer)}{yaml.safe_dump(keys, sort_keys=False)}"


def _common(deployment: Deployment, facts: ServingFacts, buffer: PdBuffer) -> Mapping[str, Any]:
    return {
        "chunk_size": facts.chunk_tokens,
        # what a decoder generates and what lies in host memory is nobody's prompt
        "local_cpu": False,
        "max_local_cpu_size": 0,
        "save_decode_cache": False,
        # LMCache would force it with a warning
        "save_unfull_chunk": True,
        "enable_pd": True,
        "transfer_channel": "nixl",
        # LMCache's own default is UCX, which crosses EFA as TCP
        "nixl_backends": [deployment.serving.transfer.backend],
        "pd_buffer_device": "cuda",
        "pd_buffer_size": buffer.usable_bytes,
    }


def _sender(deployment: Deployment) -> Mapping[str, Any]:
    return {
        "pd_role": "sender",
        "pd_proxy_host": router_host(deployment),
        "pd_proxy_port": NOTIFICATION_PORT,
    }


def _receiver() -> Mapping[str, Any]:
    # a bind address: the name of a Service cannot be bound
    return {"pd_role": "receiver", "pd_peer_host": "0.0.0.0"}  # noqa: S104


def _asynchronous(deployment: Deployment, facts: ServingFacts) -> Mapping[str, Any]:
    """Keys of LMCache 0.4.5 and later."""
    return {
        "pd_backend_mode": "async",
        # refuses at start-up a buffer that cannot hold the longest prompt
        "pd_max_prefill_len": facts.max_model_len_tokens,
        # LMCache's own default waits for ever
        "pd_allocation_timeout_sec": deployment.serving.transfer.allocation_timeout_seconds,
    }


def _header(facts: ServingFacts, buffer: PdBuffer) -> str:
    return (
        f"# LMCache {facts.engine.lmcache}; the PD buffer is per rank and outside vLLM's share of the memory:\n"
        f"# {buffer.chunks:,} chunks of {facts.chunk_tokens} tokens and {buffer.chunk_bytes:,} bytes; "
        f"{buffer.rounded_off_bytes:,} bytes of {buffer.requested_bytes / GIB:g} GiB rounded off\n"
    )
