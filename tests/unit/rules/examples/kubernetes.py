"""Cases of the rules about Kubernetes."""

from typing import Any, Final

from tests.unit.rules.example import REMOVED, Bad, Example

_HUB: Final[dict[str, Any]] = {"model.source": {"type": "huggingface"}}
_NO_OPERATOR: Final = {"platform.inference_operator": None}

EXAMPLES = (
    Example(
        rule="DPD-K8S-004",
        good=(
            _HUB,
            {"model.source": {"type": "s3", "bucket": "weights"}, "model.revision": REMOVED},
            {"model.source": {"type": "volume", "claim": "weights"}, "model.revision": REMOVED},
        ),
        bad=(
            Bad(case={**_HUB, "model.revision": "main"}, at="model.revision", mentions=("`revision: main`",)),
            Bad(case={"model.revision": REMOVED}, at="model.revision", mentions=("40 hexadecimal digits",)),
            Bad(case={"model.source": {"type": "fsx"}, "model.revision": REMOVED}, at="model.revision"),
        ),
    ),
    Example(
        rule="DPD-K8S-005",
        good=({"serving.security.workers": "ipc-lock"},),
        bad=(Bad(case={"serving.security.workers": "privileged"}, at="serving.security.workers"),),
    ),
    Example(
        rule="DPD-K8S-006",
        good=({"platform.network_policies": "enforced"},),
        bad=(Bad(case={"platform.network_policies": "rendered-only"}, at="platform.network_policies"),),
    ),
    Example(
        rule="DPD-K8S-007",
        good=({"model.trust_remote_code": False},),
        bad=(Bad(case={"model.trust_remote_code": True}, at="model.trust_remote_code"),),
    ),
    Example(
        rule="DPD-K8S-008",
        good=(
            {"routing.load_balancer": {}},
            _NO_OPERATOR,
            {**_NO_OPERATOR, "platform.load_balancer_controller": True, "routing.load_balancer": {}},
        ),
        bad=(Bad(case={**_NO_OPERATOR, "routing.load_balancer": {}}, at="routing.load_balancer"),),
    ),
    Example(
        rule="DPD-K8S-009",
        good=(
            {"routing.load_balancer": {}, "serving.longest_generation_seconds": 4000},
            {"serving.longest_generation_seconds": 9000},
        ),
        bad=(
            Bad(
                case={"routing.load_balancer": {}, "serving.longest_generation_seconds": 4001},
                at="serving.longest_generation_seconds",
                mentions=("4001", "4000 seconds"),
            ),
        ),
    ),
    Example(
        rule="DPD-K8S-010",
        good=(
            {"routing.api_keys_secret": "keys"},
            {"platform.external_secrets": False},
            {**_HUB, "platform.external_secrets": False},
        ),
        bad=(
            Bad(
                case={"routing.api_keys_secret": "keys", "platform.external_secrets": False},
                at="routing.api_keys_secret",
                mentions=("`keys`",),
            ),
            Bad(
                case={
                    "model.source": {"type": "huggingface", "token_secret": "hub"},
                    "platform.external_secrets": False,
                },
                at="model.source.token_secret",
                mentions=("`hub`",),
            ),
        ),
    ),
    Example(
        rule="DPD-K8S-011",
        good=(
            {
                "serving.prefill.environment": {
                    "TOKENIZERS_PARALLELISM": "false",
                    "VLLM_MAX_TOKENS_SHOWN": "1",
                }
            },
            {"serving.prefill.environment": {"NIXL_LOG_LEVEL": "info"}},
        ),
        bad=(
            Bad(
                case={"serving.decode.environment": {"HF_TOKEN": "hf_x"}},
                at="serving.decode.environment.HF_TOKEN",
            ),
            Bad(
                case={
                    "serving.backend": "operator",
                    "serving.operator.environment": {"HF_TOKEN": "hf_x"},
                },
                at="serving.operator.environment.HF_TOKEN",
            ),
            Bad(
                case={"serving.prefill.environment": {"AWS_SECRET_ACCESS_KEY": "x"}},
                at="serving.prefill.environment.AWS_SECRET_ACCESS_KEY",
                mentions=("Secrets Manager",),
            ),
            Bad(
                case={"serving.prefill.environment": {"VLLM_API_KEY": "x"}},
                at="serving.prefill.environment.VLLM_API_KEY",
            ),
        ),
    ),
    Example(
        rule="DPD-K8S-012",
        good=(
            {"serving.prefill.scaling": {"maximum": 3}},
            {"serving.backend": "operator"},
            {
                "platform.inference_operator": None,
                "platform.autoscaling": True,
                "serving.prefill.scaling": {"maximum": 3},
            },
            {
                "platform.autoscaling": False,
                "platform.custom_resources": ["keda.sh"],
                "serving.prefill.scaling": {"maximum": 3},
            },
            {"platform.inference_operator": None, "platform.autoscaling": False},
        ),
        bad=(
            Bad(
                case={"platform.inference_operator": None, "serving.decode.scaling": {"maximum": 2}},
                at="serving.decode.scaling",
                mentions=("`ScaledObject`", "`keda.sh`", "`platform.autoscaling`", "remove `scaling`"),
            ),
            Bad(
                case={"platform.autoscaling": False, "serving.prefill.scaling": {"maximum": 3}},
                at="serving.prefill.scaling",
                mentions=("`ScaledObject`",),
            ),
            Bad(
                case={"serving.backend": "operator", "platform.inference_operator": None},
                at="serving.backend",
                mentions=("`InferenceEndpointConfig`", "`backend: self-managed`"),
            ),
        ),
    ),
)
