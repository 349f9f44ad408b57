"""A model of which each GPU carries what it carries of Llama 3.3 70B with tensor parallelism 8.

One rank for one GPU; of several ranks each GPU carries one, with the all-reduces between them. Same weight bytes,
floating-point operations and KV bytes per GPU. The `narrow` one has the same KV bytes and little else: for ranks that
share a GPU and whose all-reduces go through the CPU. The tokenizer maps the word `t<i>` to token `i`, so that text and ids can
be checked against each other.

Weights are random. vLLM's own dummy weights will not do for comparing answers: they are so small that the answer hardly
depends on the KV cache, and an engine that reads unwritten memory gives the same text.

    python -m tools.evidence.standin DIRECTORY [RANKS] [--narrow]   # writes weights, too; needs torch and safetensors
"""

import argparse
import json
from pathlib import Path
from typing import Final

VOCABULARY = 16032
"""Tokens of one rank; prompts are written with these."""

FIRST_WORD = 10
"""Tokens below are special."""

_WHOLE: Final = {
    "hidden_size": 8192, "intermediate_size": 3584, "num_hidden_layers": 80,
    "num_attention_heads": 8, "num_key_value_heads": 1,
}  # fmt: skip
_NARROW: Final = {
    "hidden_size": 1024, "intermediate_size": 2048, "num_hidden_layers": 10,
    "num_attention_heads": 8, "num_key_value_heads": 8,
}  # fmt: skip
_PER_RANK: Final = ("intermediate_size", "num_attention_heads", "num_key_value_heads")

_CHAT_TEMPLATE = (
    "{% for message in messages %}<3> {{ message['content'] }} <4> {% endfor %}"
    "{% if add_generation_prompt %}<5> {% endif %}"
)


def write(directory: Path, ranks: int = 1, *, narrow: bool = False) -> None:
    """Write configuration and tokenizer of a stand-in of `ranks` tensor-parallel ranks into `directory`."""
    from tokenizers import Tokenizer, models, pre_tokenizers  # noqa: PLC0415

    directory.mkdir(parents=True, exist_ok=True)
    vocabulary = VOCABULARY * ranks
    shape = _NARROW if narrow else _WHOLE
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        **{name: size * ranks if name in _PER_RANK else size for name, size in shape.items()},
        "head_dim": 128,
        "vocab_size": vocabulary,
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
    # special tokens are cut out of words that contain them: none may be the beginning of a word
    words = models.WordLevel(
        {f"t{index}" if index >= FIRST_WORD else f"<{index}>": index for index in range(vocabulary)},
        unk_token="<2>",
    )
    tokenizer = Tokenizer(words)
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.save(str(directory / "tokenizer.json"))
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": "<0>",
        "eos_token": "<1>",
        "unk_token": "<2>",
        "model_max_length": 131072,
        "chat_template": _CHAT_TEMPLATE,
    }
    (directory / "tokenizer_config.json").write_text(json.dumps(settings))


def write_weights(directory: Path, seed: int = 0) -> None:
    """Write random weights of the usual size (standard deviation 0.02, norms 1) into `directory`, a file per ten layers."""
    import torch  # type: ignore[import-not-found, unused-ignore]  # noqa: PLC0415
    from safetensors.torch import save_file  # type: ignore[import-not-found, unused-ignore]  # noqa: PLC0415

    config = json.loads((directory / "config.json").read_text())
    hidden, middle, layers = config["hidden_size"], config["intermediate_size"], config["num_hidden_layers"]
    vocabulary = config["vocab_size"]
    queries = config["num_attention_heads"] * config["head_dim"]
    keys = config["num_key_value_heads"] * config["head_dim"]
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(seed)

    def normal(*shape: int) -> "torch.Tensor":
        return (torch.randn(*shape, device=device, dtype=torch.bfloat16) * 0.02).cpu()

    def ones() -> "torch.Tensor":
        return torch.ones(hidden, dtype=torch.bfloat16)

    def layer(index: int) -> "dict[str, torch.Tensor]":
        prefix = f"model.layers.{index}."
        return {
            prefix + "self_attn.q_proj.weight": normal(queries, hidden),
            prefix + "self_attn.k_proj.weight": normal(keys, hidden),
            prefix + "self_attn.v_proj.weight": normal(keys, hidden),
            prefix + "self_attn.o_proj.weight": normal(hidden, queries),
            prefix + "mlp.gate_proj.weight": normal(middle, hidden),
            prefix + "mlp.up_proj.weight": normal(middle, hidden),
            prefix + "mlp.down_proj.weight": normal(hidden, middle),
            prefix + "input_layernorm.weight": ones(),
            prefix + "post_attention_layernorm.weight": ones(),
        }

    shards = [
        {
            "model.embed_tokens.weight": normal(vocabulary, hidden),
            "lm_head.weight": normal(vocabulary, hidden),
            "model.norm.weight": ones(),
        }
    ]
    save_file(shards[0], directory / "model-00.safetensors")
    names = dict.fromkeys(shards[0], "model-00.safetensors")
    for number, begin in enumerate(range(0, layers, 10), start=1):
        shard = {
            key: value
            for index in range(begin, min(begin + 10, layers))
            for key, value in layer(index).items()
        }
        file = f"model-{number:02d}.safetensors"
        save_file(shard, directory / file)
        names |= dict.fromkeys(shard, file)
    index_file = directory / "model.safetensors.index.json"
    index_file.write_text(json.dumps({"metadata": {}, "weight_map": names}))


def main() -> None:
    """Parse the command line and write everything."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("directory", type=Path)
    parser.add_argument("ranks", type=int, nargs="?", default=1)
    parser.add_argument("--narrow", action="store_true", help="the same KV bytes a token, little else")
    options = parser.parse_args()
    write(options.directory, options.ranks, narrow=options.narrow)
    write_weights(options.directory)


if __name__ == "__main__":
    main()
