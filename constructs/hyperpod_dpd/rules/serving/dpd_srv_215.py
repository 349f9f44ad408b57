"""DPD-SRV-215: what shapes the KV cache is said to both roles."""

from collections.abc import Iterator
from typing import Final

from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.rules.serving.subjects import spelled_flag
from hyperpod_dpd.spec import Deployment, Role

SHAPING_FLAGS: Final = frozenset(
    {
        "--attention-backend",
        "--attention-config",
        "--calculate-kv-scales",
        "--config-format",
        "--enable-lora",
        "--hf-config-path",
        "--hf-overrides",
        "--lora-modules",
        "--model-impl",
        "--speculative-config",
        "--tokenizer",
        "--tokenizer-mode",
    }
)
SHAPING_VARIABLES: Final = frozenset({"VLLM_ATTENTION_BACKEND", "VLLM_KV_CACHE_LAYOUT"})


@deployment_rule(
    "DPD-SRV-215",
    severity=Severity.ERROR,
    title="arguments and variables that shape the KV cache are equal on both roles",
    sources=("vLLM NIXL connector documentation (compatibility hash)", "vllm-project/vllm issue 49238"),
    facts=("V7",),
)
def both_roles_shape_the_cache_alike(deployment: Deployment) -> Iterator[Problem]:
    """Another attention backend or another view of the model lays the cache out differently: it is read as garbage."""
    prefill, decode = (_shaping(deployment, role) for role in (Role.PREFILL, Role.DECODE))
    for name in dict.fromkeys([*prefill, *decode]):
        if prefill.get(name) != decode.get(name):
            yield Problem(
                path="serving.decode.extra_args" if name.startswith("-") else "serving.decode.environment",
                says=f"`{name}` differs between the roles",
                given=f"prefill {_shown(prefill.get(name))}, decode {_shown(decode.get(name))}",
                fix="give it to both roles, with the same value",
            )


def _shaping(deployment: Deployment, role: Role) -> dict[str, str]:
    worker = deployment.serving.worker(role)
    found = {name: value for name, value in (worker.environment or {}).items() if name in SHAPING_VARIABLES}
    flag = None
    for argument in worker.extra_args:
        spelled = spelled_flag(argument)
        if spelled is None:
            if flag is not None:
                found[flag] = f"{found[flag]} {argument}".strip()
            continue
        flag = spelled if spelled in SHAPING_FLAGS else None
        if flag is not None:
            # `--flag.key value` says a part, so the argument itself belongs to what is compared
            name, _, value = argument.partition("=")
            key = name.partition(".")[2]
            found[flag] = f"{found.get(flag, '')} {key} {value}".strip()
    return found


def _shown(value: str | None) -> str:
    return "nothing" if value is None else f"`{value}`"
