"""A model that one GPU can serve and that costs what one tensor-parallel-8 rank of Llama 3.3 70B costs.

Same weight bytes, floating-point operations and KV bytes per GPU; without the all-reduces. Weights are dummies, so the
text means nothing; the tokenizer maps the word `t<i>` to token `i`, so that text and ids can be checked against each
other.
"""

import json
from pathlib import Path

VOCABULARY = 16032
FIRST_WORD = 10
"""Tokens below are special."""

_CHAT_TEMPLATE = (
    "{% for message in messages %}t3 {{ message['content'] }} t4 {% endfor %}"
    "{% if add_generation_prompt %}t5 {% endif %}"
)


def write(directory: Path) -> None:
    """Write configuration and tokenizer of the stand-in into `directory`."""
    from tokenizers import Tokenizer, models, pre_tokenizers  # noqa: PLC0415

    directory.mkdir(parents=True, exist_ok=True)
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": 8192,
        "intermediate_size": 3584,
        "num_hidden_layers": 80,
        "num_attention_heads": 8,
        "num_key_value_heads": 1,
        "head_dim": 128,
        "vocab_size": VOCABULARY,
        "max_position_embeddings": 131072,
        "rms_norm_eps": 1e-5,
        "rope_theta": 500000.0,
        "hidden_act": "silu",
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
        "bos_token_id": 0,
        "eos_token_id": 1,
        "attention_bias": False,
        "mlp_bias": False,
    }
    (directory / "config.json").write_text(json.dumps(config))
    words = models.WordLevel({f"t{index}": index for index in range(VOCABULARY)}, unk_token="t2")
    tokenizer = Tokenizer(words)
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.save(str(directory / "tokenizer.json"))
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": "t0",
        "eos_token": "t1",
        "unk_token": "t2",
        "model_max_length": 131072,
        "chat_template": _CHAT_TEMPLATE,
    }
    (directory / "tokenizer_config.json").write_text(json.dumps(settings))
