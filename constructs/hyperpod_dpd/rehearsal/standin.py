"""A model without weights that costs one GPU what one rank of the real model costs it."""

import json
from pathlib import Path
from typing import Any

from hyperpod_dpd.catalog.models import ModelGeometry

_VOCABULARY = 16_032
"""Enough for the ids that clients send, and divisible by 16 ranks."""

_SPECIAL = ("<0>", "<1>", "<2>")
"""The first tokens. Special tokens are cut out of words that contain them: none may be the beginning of a word."""


def write_standin(folder: Path, geometry: ModelGeometry) -> None:
    """Write configuration and tokenizer of a dense model with the shape `geometry`; vLLM makes dummy weights up.

    Args:
        folder: a new folder.
        geometry: shape of one rank, as `planner.one_rank_of` gives it.

    Raises:
        ValueError: the model has routed experts or latent attention, for which there is no stand-in.
    """
    if geometry.experts is not None or geometry.latent_attention is not None:
        raise ValueError(f"`{geometry.name}` has experts or latent attention: there is no stand-in for it")
    folder.mkdir(parents=True)
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": geometry.hidden_size,
        "intermediate_size": geometry.intermediate_size,
        "num_hidden_layers": geometry.layers,
        "num_attention_heads": geometry.attention_heads,
        "num_key_value_heads": geometry.kv_heads,
        "head_dim": geometry.head_dim,
        "vocab_size": _VOCABULARY,
        "max_position_embeddings": geometry.max_position_tokens,
        "rms_norm_eps": 1e-5,
        "rope_theta": 500000.0,
        "hidden_act": "silu",
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
        "bos_token_id": 0,
        "eos_token_id": 1,
    }
    tokenizer = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": _SPECIAL[0],
        "eos_token": _SPECIAL[1],
        "unk_token": _SPECIAL[2],
        "model_max_length": geometry.max_position_tokens,
        "chat_template": "{% for message in messages %}{{ message['content'] }} {% endfor %}",
    }
    for name, data in (
        ("config.json", config),
        ("tokenizer_config.json", tokenizer),
        ("tokenizer.json", _words()),
    ):
        (folder / name).write_text(json.dumps(data), encoding="utf-8")


def _words() -> dict[str, Any]:
    """Return a tokenizer for which the word `t<i>` is the token `i`, from the first that is not special on."""
    words = [*_SPECIAL, *(f"t{index}" for index in range(len(_SPECIAL), _VOCABULARY))]
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [],
        "normalizer": None,
        "pre_tokenizer": {"type": "WhitespaceSplit"},
        "post_processor": None,
        "decoder": None,
        "model": {
            "type": "WordLevel",
            "vocab": {word: index for index, word in enumerate(words)},
            "unk_token": _SPECIAL[2],
        },
    }
