"""The digest of what prefill and decode must have in common."""

import hashlib
import json

from hyperpod_dpd.derive import ServingFacts
from hyperpod_dpd.serving.model_source import model_argument
from hyperpod_dpd.spec import Deployment

_DIGITS = 10


def generation(deployment: Deployment, facts: ServingFacts) -> str:
    """Return the digest: a change of it replaces both roles together, because old and new cannot exchange KV."""
    model, transfer, engine = deployment.model, deployment.serving.transfer, facts.engine
    common = {
        "image": deployment.serving.engine.image or deployment.platform.images.worker or engine.triple.image,
        "vllm": engine.vllm,
        "lmcache": engine.lmcache,
        "nixl": engine.nixl,
        "model": model_argument(deployment),
        "revision": model.revision,
        "weights": model.weights,
        "kv_cache": model.kv_cache,
        "tensor_parallel": facts.tensor_parallel,
        "max_model_len_tokens": facts.max_model_len_tokens,
        "block_size_tokens": transfer.block_size_tokens,
        "transfer": transfer.type,
        "backend": transfer.backend,
        "chunk_tokens": facts.chunk_tokens,
        "hash_seed": facts.hash_seed,
        "init_ports": [facts.decode_ports.init_base, transfer.port_epochs],
        "alloc_ports": [facts.decode_ports.alloc_base, transfer.port_epochs],
    }
    return hashlib.sha256(json.dumps(common, sort_keys=True).encode()).hexdigest()[:_DIGITS]
