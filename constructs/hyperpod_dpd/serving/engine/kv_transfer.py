"""The value of `--kv-transfer-config`: only fields that every supported vLLM accepts."""

from typing import Any

from hyperpod_dpd.spec import Deployment, Role

_KV_ROLES = {Role.PREFILL: "kv_producer", Role.DECODE: "kv_consumer"}


def kv_transfer_config(deployment: Deployment, role: Role) -> dict[str, Any]:
    """Return the KV connector of `role`.

    `kv_load_failure_policy` is read at the top level only; inside the extra configuration it is inert. It says
    `fail`: the router owns the fallback and has to learn of a failed load, which `recompute` would hide.

    Raises:
        KeyError: `role` is neither prefill nor decode.
    """
    transfer = deployment.serving.transfer
    if transfer.type == "nixl":
        connector, extra = "NixlConnector", {"backends": [transfer.backend]}
    else:
        connector, extra = "LMCacheConnectorV1", _lmcache_extra(role)
    return {
        "kv_connector": connector,
        "kv_role": _KV_ROLES[role],
        "kv_load_failure_policy": "fail",
        "kv_connector_extra_config": extra,
    }


def _lmcache_extra(role: Role) -> dict[str, Any]:
    extra: dict[str, Any] = {
        # otherwise the tail of the prompt is not handed over
        "discard_partial_chunks": False,
        # names a socket below the engine's own temporary directory
        "lmcache_rpc_port": role.value,
    }
    if role is Role.DECODE:
        # a prompt that is hit to its last token gives wrong output (LMCache#4614, vllm#52617)
        extra["skip_last_n_tokens"] = 1
    return extra
