"""Cases of the rules about serving."""

from typing import Any, Final

from tests.unit.rules.example import REMOVED, Bad, Example

_OLD: Final = {"serving.engine.name": "hyperpod-v1.1"}
_OPERATOR: Final = {"serving.backend": "operator"}
_NIXL: Final = {"serving.transfer.type": "nixl"}
_P5EN: Final = {"hyperpod.instance_groups.1.instance_type": "ml.p5en.48xlarge"}


_HUB: Final = {"type": "huggingface"}
_SCALED: Final = {"serving.prefill.scaling": {"maximum": 3}}
_CERTIFICATE: Final = "arn:aws:acm:us-east-1:123456789012:certificate/0123abcd-0000-4000-8000-0123456789ab"
_ONE_GROUP: Final = {
    "serving.prefill.instance_group": "prefill",
    "serving.decode.instance_group": "prefill",
}


def _addon(version: str) -> dict[str, Any]:
    return {**_OPERATOR, "platform.inference_operator.version": version}


def _prefill(**variables: str) -> dict[str, Any]:
    return {"serving.prefill.environment": variables}


def _decode_arguments(*arguments: str) -> dict[str, Any]:
    return {"serving.decode.extra_args": list(arguments)}


EXAMPLES = (
    Example(
        rule="DPD-SRV-011",
        good=(
            {"traffic.input_tokens": 16000, "traffic.output_tokens": 384},
            {"traffic.short_input_tokens": 20000},
            {"traffic.input_tokens": 20000, "traffic.trace_file": "trace.jsonl"},
        ),
        bad=(
            Bad(
                case={"traffic.input_tokens": 16000, "traffic.output_tokens": 385},
                at="traffic.input_tokens",
                mentions=("16,385 tokens", "`max_model_len_tokens: 16384`"),
            ),
            Bad(
                case={"traffic.long_share": 0.5, "traffic.short_input_tokens": 20000},
                at="traffic.short_input_tokens",
                mentions=("`short_input_tokens: 20000`",),
            ),
        ),
    ),
    Example(
        rule="DPD-SRV-012",
        good=(
            {"serving.prefill.max_num_batched_tokens": 16},
            {"serving.decode.max_num_seqs": REMOVED, "serving.decode.max_num_batched_tokens": 1024},
            {"serving.baseline.tuned_max_num_batched_tokens": 16},
        ),
        bad=(
            Bad(
                case={"serving.prefill.max_num_batched_tokens": 15},
                at="serving.prefill.max_num_batched_tokens",
                mentions=("`max_num_batched_tokens: 15`", "`max_num_seqs: 16`"),
            ),
            Bad(
                case={"serving.decode.max_num_seqs": REMOVED, "serving.decode.max_num_batched_tokens": 1023},
                at="serving.decode.max_num_batched_tokens",
                mentions=("`max_num_seqs: 1024`",),
            ),
            Bad(
                case={"serving.baseline.max_num_seqs": 513},
                at="serving.baseline.tuned_max_num_batched_tokens",
                mentions=(
                    "`tuned_max_num_batched_tokens: 512` with `max_num_seqs: 513`",
                    "set `tuned_max_num_batched_tokens` to at least 513",
                ),
            ),
        ),
    ),
    Example(
        rule="DPD-SRV-013",
        good=({}, {"serving.transfer.block_size_tokens": 32}),
        bad=(
            Bad(
                case={"serving.transfer.block_size_tokens": 24},
                at="serving.transfer.block_size_tokens",
                mentions=("24", "multiples of 16"),
            ),
        ),
    ),
    Example(
        rule="DPD-SRV-014",
        good=({"routing.max_queued_mib": 8191}, {**_OPERATOR, "routing.max_queued_mib": 8192}),
        bad=(
            Bad(
                case={"routing.max_queued_mib": 8192},
                at="routing.max_queued_mib",
                mentions=("`max_queued_mib: 8192`", "8,192 MiB"),
            ),
        ),
    ),
    Example(
        rule="DPD-SRV-000",
        good=(
            {},
            {"serving.engine.name": "lmcache-v0.4.3"},
            _P5EN,
            # DPD-HP-001 says this one
            {"hyperpod.instance_groups.1.instance_type": "ml.g5.48xlarge"},
            # DPD-SRV-002 says this one
            {"serving.tensor_parallel": 6},
        ),
        bad=(
            Bad(case={"model.name": "llama-5"}, at="model.name", mentions=("`name: llama-5`",)),
            Bad(case={"serving.engine.name": "vllm-9"}, at="serving.engine.name", mentions=("vllm-0.25.1",)),
            Bad(case={"serving.decode.gpus": 16}, at="serving.decode.gpus", mentions=("16 GPUs", "8")),
        ),
    ),
    Example(
        rule="DPD-SRV-001",
        good=({"serving.prefill.gpus": 8}, {"serving.tensor_parallel": 4, "serving.decode.gpus": 4}),
        bad=(
            Bad(
                case={"serving.decode.gpus": 4},
                at="serving.decode.gpus",
                mentions=("a decode worker's", "`gpus: 4`", "`tensor_parallel: 8`"),
            ),
        ),
    ),
    Example(
        rule="DPD-SRV-002",
        good=({"serving.tensor_parallel": 4}, {"model.name": "llama-5"}),
        bad=(
            Bad(
                case={"serving.tensor_parallel": 6},
                at="serving.tensor_parallel",
                mentions=(
                    "`llama-3.3-70b-instruct` cannot be divided",
                    "64 attention heads",
                    "`tensor_parallel: 6`",
                    "1, 2, 4, 8",
                ),
            ),
        ),
    ),
    Example(
        rule="DPD-SRV-003",
        good=({"serving.tensor_parallel": 4}, {"serving.tensor_parallel": 2, "model.weights": "fp8"}),
        bad=(
            Bad(
                case={"serving.tensor_parallel": 2},
                at="serving.prefill",
                besides=("serving.decode", "serving.baseline.gpu_memory_utilization"),
                mentions=(
                    "a prefill worker",
                    "weights 65.7 GiB",
                    "reserve 4.0 GiB",
                    "16,384-token sequence 2.5 GiB",
                    "= 72.2 GiB per GPU",
                    "68.5 GiB",
                    "beside a PD buffer of 8.0 GiB",
                    "lower `max_model_len_tokens` or `pd_buffer_gib`",
                ),
            ),
            Bad(
                case={"serving.decode.gpu_memory_utilization": 0.2}, at="serving.decode", mentions=("0.2 of",)
            ),
            Bad(
                case={"serving.baseline.gpu_memory_utilization": 0.001},
                at="serving.baseline.gpu_memory_utilization",
                mentions=(
                    "a colocated worker of the baseline does not fit on `ml.p5.48xlarge`",
                    "`tensor_parallel: 8`, `weights: bf16`, `max_model_len_tokens: 16384`",
                    "`gpu_memory_utilization: 0.001`",
                    "0.1 GiB: 0.001 of 79.6 GiB",
                ),
            ),
        ),
    ),
    Example(
        rule="DPD-SRV-004",
        good=(
            {"traffic.concurrency": 51},
            {"traffic.concurrency": REMOVED},
            {**_NIXL, "traffic.concurrency": 5000},
            {**_OPERATOR, "serving.prefill.max_num_seqs": 12},
            {**_OPERATOR, "serving.transfer.pd_buffer_gib": 10.0},
            {"traffic.concurrency": 102, "serving.decode.replicas": 2},
            # DPD-SRV-106 says this one
            {"serving.transfer.pd_buffer_gib": 0.001},
        ),
        bad=(
            Bad(
                case={"traffic.concurrency": 52},
                at="serving.transfer.pd_buffer_gib",
                mentions=(
                    "`concurrency: 52` prompts of 4,096 tokens",
                    "`serving.decode.replicas: 1`",
                    "51 such prompts",
                    "16 of 819 chunks",
                ),
            ),
            Bad(
                case=_OPERATOR,
                at="serving.transfer.pd_buffer_gib",
                mentions=(
                    "`max_num_seqs: 16` × `max_model_len_tokens: 16384`",
                    "10.0 GiB",
                    "8.0 GiB",
                    "12 prompts of full length",
                ),
            ),
        ),
    ),
    Example(
        rule="DPD-SRV-006",
        good=({"serving.transfer.backend": "LIBFABRIC"}, _NIXL),
        bad=(
            Bad(
                case={"serving.transfer.backend": "UCX"},
                at="serving.transfer.backend",
                mentions=("`backend: UCX`",),
            ),
        ),
    ),
    Example(
        rule="DPD-SRV-007",
        good=(
            _OPERATOR,
            {"serving.decode.replicas": 2},
            {**_OPERATOR, "serving.decode.scaling": {"maximum": 1}},
            {**_OPERATOR, "serving.prefill.scaling": {"maximum": 3}},
        ),
        bad=(
            Bad(
                case={**_OPERATOR, "serving.decode.replicas": 2},
                at="serving.decode.replicas",
                mentions=("`replicas: 2`", "`backend: self-managed`"),
            ),
            Bad(case={**_OPERATOR, **_NIXL}, at="serving.transfer.type", mentions=("`type: nixl`",)),
            Bad(
                case={**_OPERATOR, "serving.decode.scaling": {"maximum": 2}},
                at="serving.decode.scaling.maximum",
                mentions=("`maximum: 2`", "`backend: self-managed`"),
            ),
            Bad(
                case={**_OPERATOR, "serving.prefill.replicas": 0},
                at="serving.prefill.replicas",
                mentions=("`replicas: 0`", "at least 1"),
            ),
        ),
    ),
    Example(
        rule="DPD-SRV-008",
        good=(
            {"traffic.concurrency": 64},
            {"model.name": "qwen2.5-72b-instruct"},
            {"routing.estimator": "characters", "traffic.input_tokens": 8192},
            {"traffic.concurrency": REMOVED},
            # a quarter of 4,096 away is near, one token more is not
            {"routing.estimator": "characters", "traffic.input_tokens": 5121},
            {"routing.estimator": "characters", "traffic.input_tokens": 3071},
            {"routing.estimator": "characters", "routing.threshold_tokens": 0},
            {"routing.estimator": "characters", "routing.threshold_tokens": "never"},
        ),
        bad=(
            Bad(
                case={"model.name": "llama-3.1-8b-instruct"},
                at="model.name",
                mentions=("`name: llama-3.1-8b-instruct`", "8.0 billion", "dense"),
            ),
            Bad(
                case={"model.name": "mixtral-8x22b-instruct"},
                at="model.name",
                mentions=("140.6 billion", "a mixture of experts"),
            ),
            Bad(case={"traffic.concurrency": 65}, at="traffic.concurrency", mentions=("65", "64")),
            Bad(
                case={"routing.estimator": "characters", "traffic.input_tokens": 5120},
                at="routing.estimator",
                mentions=("`input_tokens: 5120`", "`threshold_tokens: 4096`", "25%"),
            ),
            Bad(
                case={"routing.estimator": "characters", "traffic.input_tokens": 3072},
                at="routing.estimator",
                mentions=("`input_tokens: 3072`",),
            ),
            # the operator's router counts characters, whatever the deployment says
            Bad(case={**_OPERATOR, "routing.estimator": "tokens"}, at="routing.estimator"),
        ),
    ),
    Example(
        rule="DPD-SRV-009",
        good=(
            {"serving.tensor_parallel": 4, "serving.decode.replicas": 2},
            {"serving.decode.replicas": 2, "hyperpod.instance_groups.1.count": 2},
        ),
        bad=(
            Bad(
                case={"serving.decode.replicas": 2},
                at="hyperpod.instance_groups[1].count",
                mentions=("group `decode`", "`count: 1`", "2 nodes", "set `count: 2`"),
            ),
            Bad(
                case={"serving.prefill.scaling": {"maximum": 3}},
                at="hyperpod.instance_groups[0].count",
                mentions=("3 nodes",),
            ),
            Bad(
                case={"serving.tensor_parallel": 4, "serving.decode.instance_group": "prefill"},
                at="hyperpod.instance_groups[0].count",
                mentions=("2 nodes",),
            ),
        ),
    ),
    Example(
        rule="DPD-SRV-010",
        good=({"serving.prefill.replicas": 0, "routing.threshold_tokens": "never"},),
        bad=(
            Bad(
                case={"serving.decode.replicas": 0}, at="serving.decode.replicas", mentions=("`replicas: 0`",)
            ),
            Bad(
                case={"serving.prefill.replicas": 0},
                at="serving.prefill.replicas",
                mentions=("`threshold_tokens: 4096`", "`routing.threshold_tokens: never`"),
            ),
        ),
    ),
    Example(
        rule="DPD-SRV-015",
        good=(
            {},
            {"serving.tensor_parallel": 4, "serving.decode.replicas": 2},
            {"serving.decode.scaling": {"maximum": 2}, "hyperpod.instance_groups.1.count": 2},
            {"hyperpod.instance_groups.1.count": 0},
            {
                "cluster.existing": {"eks_name": "llama", "hyperpod_name": "shared"},
                "hyperpod.instance_groups.1.count": 2,
            },
        ),
        bad=(
            Bad(
                case={"hyperpod.instance_groups.1.count": 2},
                at="hyperpod.instance_groups[1].count",
                mentions=("`decode`", "`count: 2`", "take 1 of them"),
            ),
            Bad(
                case={
                    "hyperpod.instance_groups.2": {
                        "name": "spot",
                        "role": "prefill",
                        "instance_type": "ml.p5.48xlarge",
                        "count": 1,
                    },
                    "serving.prefill.instance_group": "prefill",
                },
                at="hyperpod.instance_groups[2].count",
                mentions=("`spot`", "take none of them"),
            ),
        ),
    ),
    Example(
        rule="DPD-SRV-101",
        good=(
            {"serving.transfer.port_epochs": 12},
            {"serving.transfer.init_port_base": 7501, "serving.transfer.alloc_port_base": 7600},
            # 7236-7299 ends where 7300-7363 begins
            {"serving.transfer.alloc_port_base": 7236},
            {**_NIXL, "serving.transfer.alloc_port_base": 7300},
        ),
        bad=(
            Bad(
                case={"serving.transfer.port_epochs": 13},
                at="serving.transfer.alloc_port_base",
                besides=("serving.transfer.alloc_port_base",),
                mentions=(
                    "7300-7403",
                    "7400-7503",
                    "8 ranks × 13 epochs",
                    "`alloc_port_base: 7501`",
                    "port 7500",
                ),
            ),
            Bad(
                case={"serving.transfer.alloc_port_base": 7350},
                at="serving.transfer.alloc_port_base",
                mentions=("7300-7363 and 7350-7413", "`alloc_port_base: 7364`"),
            ),
            # the next 64 ports end before 7500
            Bad(
                case={"serving.transfer.init_port_base": 7372, "serving.transfer.alloc_port_base": 7380},
                at="serving.transfer.alloc_port_base",
                mentions=("`alloc_port_base: 7436`",),
            ),
            # the next 64 ports begin at 7500
            Bad(
                case={"serving.transfer.init_port_base": 7436, "serving.transfer.alloc_port_base": 7430},
                at="serving.transfer.alloc_port_base",
                mentions=("`alloc_port_base: 7501`",),
            ),
            Bad(
                case={"serving.transfer.init_port_base": 7990},
                at="serving.transfer.init_port_base",
                mentions=("port 8000", "7990-8053 (8 ranks × 8 epochs)"),
            ),
            Bad(
                case={"serving.transfer.alloc_port_base": 8050},
                at="serving.transfer.alloc_port_base",
                mentions=("port 8081", "the router"),
            ),
        ),
    ),
    Example(
        rule="DPD-SRV-104",
        good=(
            {"serving.transfer.pd_buffer_gib": 0.63},
            {"serving.transfer.pd_buffer_gib": 0.001},  # the rule about one chunk says this
            {**_NIXL, "serving.transfer.pd_buffer_gib": 0.1},
        ),
        bad=(
            Bad(
                case={"serving.transfer.pd_buffer_gib": 0.62},
                at="serving.transfer.pd_buffer_gib",
                besides=("serving.transfer.pd_buffer_gib",),
                mentions=(
                    "the prefill PD buffer",
                    "the decode PD buffer",
                    "0.62 GiB, `max_model_len_tokens: 16384`",
                    "63 chunks",
                    "64 needed",
                    "10,485,760 bytes",
                    "0.625 GiB",
                    "raise the buffer to 1 GiB",
                    "16128",
                ),
            ),
            Bad(
                case={"serving.transfer.decode_pd_buffer_gib": 0.25},
                at="serving.transfer.pd_buffer_gib",
                mentions=("the decode PD buffer",),
            ),
            Bad(
                case={"serving.transfer.decode_pd_buffer_gib": 0.01},
                at="serving.transfer.pd_buffer_gib",
                mentions=("1 chunks of",),
            ),
        ),
    ),
    Example(
        rule="DPD-SRV-105",
        good=(
            {"serving.transfer.decode_pd_buffer_gib": 8.0},
            {"serving.transfer.decode_pd_buffer_gib": 16.0},
        ),
        bad=(
            Bad(
                case={"serving.transfer.decode_pd_buffer_gib": 4.0},
                at="serving.transfer.decode_pd_buffer_gib",
                mentions=("`decode_pd_buffer_gib: 4`", "`pd_buffer_gib: 8`"),
            ),
        ),
    ),
    Example(
        rule="DPD-SRV-106",
        good=({"serving.transfer.pd_buffer_gib": 0.01}, {**_NIXL, "serving.transfer.pd_buffer_gib": 0.001}),
        bad=(
            Bad(
                case={"serving.transfer.pd_buffer_gib": 0.0097},
                at="serving.transfer.pd_buffer_gib",
                besides=("serving.transfer.pd_buffer_gib",),
                mentions=(
                    "the prefill PD buffer",
                    "the decode PD buffer",
                    "10,485,760 bytes per chunk of 256 tokens",
                ),
            ),
        ),
    ),
    Example(
        rule="DPD-SRV-107",
        good=({"serving.transfer.hash_seed": 4294967295},),
        bad=(
            Bad(
                case={"serving.transfer.hash_seed": 4294967296},
                at="serving.transfer.hash_seed",
                mentions=("`hash_seed: 4294967296`", "4294967295"),
            ),
        ),
    ),
    Example(
        rule="DPD-SRV-108",
        good=(
            {"routing.notification_timeout_seconds": 10.5},
            {**_NIXL, "routing.notification_timeout_seconds": 1.0},
        ),
        bad=(
            Bad(
                case={"routing.notification_timeout_seconds": 10.0},
                at="routing.notification_timeout_seconds",
                mentions=("`notification_timeout_seconds: 10`", "`allocation_timeout_seconds: 10`"),
            ),
            Bad(
                case={"serving.transfer.allocation_timeout_seconds": 20.0},
                at="routing.notification_timeout_seconds",
                mentions=("30",),
            ),
        ),
    ),
    Example(
        rule="DPD-SRV-110",
        good=(
            _prefill(LMCACHE_LOG_LEVEL="DEBUG", LMCACHE_BLOCKING_TIMEOUT_SECS="20"),
            _prefill(VLLM_LOGGING_LEVEL="DEBUG"),
            {**_OLD, **_prefill(LMCACHE_CUFILE_BUFFER_SIZE="1")},
            {"serving.engine.lmcache": "0.5.6", **_prefill(LMCACHE_SOMETHING_NEW="1")},
        ),
        bad=(
            Bad(
                case=_prefill(LMCACHE_NIXL_ROLE="sender"),
                at="serving.prefill.environment.LMCACHE_NIXL_ROLE",
                mentions=("`nixl_role`", "`pd_role`"),
            ),
            Bad(
                case=_prefill(LMCACHE_ENABLE_XPYD="true"),
                at="serving.prefill.environment.LMCACHE_ENABLE_XPYD",
                mentions=("`enable_pd`",),
            ),
            Bad(
                case=_prefill(LMCACHE_BLOCKING_TIMEOUT_SEC="20"),
                at="serving.prefill.environment.LMCACHE_BLOCKING_TIMEOUT_SEC",
                mentions=("`blocking_timeout_sec` is no key of LMCache 0.5.3",),
            ),
            Bad(
                case={**_OLD, **_prefill(LMCACHE_PD_CONDITION_POLL_INTERVAL_SEC="0.05")},
                at="serving.prefill.environment.LMCACHE_PD_CONDITION_POLL_INTERVAL_SEC",
                mentions=("LMCache 0.4.3",),
            ),
        ),
    ),
    Example(
        rule="DPD-SRV-111",
        good=({}, _prefill(LMCACHE_PD_SHUTDOWN_TIMEOUT_SEC="5")),
        bad=(
            Bad(
                case=_prefill(LMCACHE_PD_SKIP_PROXY_NOTIFICATION="true"),
                at="serving.prefill.environment.LMCACHE_PD_SKIP_PROXY_NOTIFICATION",
            ),
        ),
    ),
    Example(
        rule="DPD-SRV-117",
        good=(_prefill(LMCACHE_LOCAL_CPU="False"), {**_NIXL, **_prefill(LMCACHE_LOCAL_CPU="True")}),
        bad=(
            Bad(
                case=_prefill(LMCACHE_LOCAL_CPU="True"),
                at="serving.prefill.environment.LMCACHE_LOCAL_CPU",
                mentions=("`local_cpu`",),
            ),
            Bad(case=_prefill(LMCACHE_ENABLE_P2P="1"), at="serving.prefill.environment.LMCACHE_ENABLE_P2P"),
            Bad(
                case={"serving.decode.environment": {"LMCACHE_SAVE_DECODE_CACHE": "true"}},
                at="serving.decode.environment.LMCACHE_SAVE_DECODE_CACHE",
            ),
        ),
    ),
    Example(
        rule="DPD-SRV-118",
        good=({},),
        bad=(
            Bad(
                case=_prefill(LMCACHE_PD_PEER_QUERY_PORT="7500"),
                at="serving.prefill.environment.LMCACHE_PD_PEER_QUERY_PORT",
            ),
            Bad(
                case=_prefill(LMCACHE_PD_BIDIRECTIONAL="true"),
                at="serving.prefill.environment.LMCACHE_PD_BIDIRECTIONAL",
            ),
        ),
    ),
    Example(
        rule="DPD-SRV-121",
        good=(
            {"serving.decode.gpu_memory_utilization": 0.86},
            {**_NIXL, "serving.decode.gpu_memory_utilization": 0.95},
        ),
        bad=(
            Bad(
                case={"serving.decode.gpu_memory_utilization": 0.88},
                at="serving.decode.gpu_memory_utilization",
                mentions=(
                    "`gpu_memory_utilization: 0.88`",
                    "70.0 GiB + 8.0 GiB = 78.0 GiB",
                    "77.2 GiB",
                    "0.86",
                ),
            ),
            Bad(
                case={"serving.prefill.gpu_memory_utilization": 0.75, "serving.transfer.pd_buffer_gib": 18.0},
                at="serving.prefill.gpu_memory_utilization",
                mentions=("18.0 GiB",),
            ),
        ),
    ),
    Example(
        rule="DPD-SRV-123",
        good=(
            {"model.name": "deepseek-v3", **_NIXL},
            {"model.name": "deepseek-v3", "serving.tensor_parallel": 1},
        ),
        bad=(
            Bad(
                case={"model.name": "deepseek-v3"},
                at="serving.transfer.type",
                mentions=("`deepseek-v3`", "`tensor_parallel: 8`", "1 notification of 8", "`type: nixl`"),
            ),
        ),
    ),
    Example(
        rule="DPD-SRV-205",
        good=(
            _decode_arguments("--max-logprobs", "20"),
            _decode_arguments("--max_logprobs=20"),
            _decode_arguments("--compilation-config.mode", "3"),
            {"serving.engine.vllm": "0.33.0", **_decode_arguments("--something-new")},
        ),
        bad=(
            Bad(
                case=_decode_arguments("--disable-log-requests"),
                at="serving.decode.extra_args[0]",
                mentions=("removed", "--enable-log-requests"),
            ),
            Bad(case=_decode_arguments("--use-v2-block-manager"), at="serving.decode.extra_args[0]"),
            Bad(
                case=_decode_arguments("--seed", "1", "--max-log-probs=20"),
                at="serving.decode.extra_args[2]",
                mentions=("vLLM 0.25.1 has no flag `--max-log-probs`", "`--max-logprobs`"),
            ),
            Bad(
                case={**_OLD, **_decode_arguments("--enable-per-request-metrics")},
                at="serving.decode.extra_args[0]",
                mentions=("vLLM 0.19.0",),
            ),
        ),
    ),
    Example(
        rule="DPD-SRV-208",
        good=(
            _OLD,
            {
                "serving.engine.vllm": "0.19.0",
                "serving.engine.lmcache": "0.4.3",
                "serving.engine.nixl": "1.0.0",
            },
        ),
        bad=(
            Bad(
                case={"serving.engine.nixl": "1.5.2"},
                at="serving.engine",
                mentions=("NIXL 1.5.2", "`vllm-0.25.1`: 0.25.1, 0.5.3, 1.5.1"),
            ),
        ),
    ),
    Example(
        rule="DPD-SRV-209",
        good=({"serving.max_model_len_tokens": 131072}, {"model.name": "llama-5"}),
        bad=(
            Bad(
                case={"serving.max_model_len_tokens": 131073},
                at="serving.max_model_len_tokens",
                mentions=("131073", "131072"),
            ),
        ),
    ),
    Example(
        rule="DPD-SRV-210",
        good=(
            {"serving.decode.max_num_batched_tokens": 2048},
            {
                **_decode_arguments("--no-enable-chunked-prefill"),
                "serving.decode.max_num_batched_tokens": 16384,
            },
        ),
        bad=(
            Bad(
                case=_decode_arguments("--no-enable-chunked-prefill"),
                at="serving.decode.max_num_batched_tokens",
                mentions=("8192 tokens", "`max_model_len_tokens: 16384`"),
            ),
        ),
    ),
    Example(
        rule="DPD-SRV-211",
        good=(_prefill(NIXL_LOG_LEVEL="info"),),
        bad=(Bad(case=_prefill(UCX_TLS="cuda_ipc,tcp"), at="serving.prefill.environment.UCX_TLS"),),
    ),
    Example(
        rule="DPD-SRV-213",
        good=(_decode_arguments("--seed", "1", "--", "-1"),),
        bad=(
            Bad(case=_decode_arguments("--tensor-parallel-size=4"), at="serving.decode.extra_args[0]"),
            Bad(case=_decode_arguments("--kv_transfer_config", "{}"), at="serving.decode.extra_args[0]"),
            Bad(
                case=_decode_arguments("--kv-transfer-config.kv_load_failure_policy", "ignore"),
                at="serving.decode.extra_args[0]",
            ),
            Bad(case=_decode_arguments("-tp", "4"), at="serving.decode.extra_args[0]"),
            Bad(
                case=_decode_arguments("--api-key", "x"),
                at="serving.decode.extra_args[0]",
                mentions=("the router asks without one",),
            ),
            Bad(
                case=_decode_arguments("--quantization", "fp8"),
                at="serving.decode.extra_args[0]",
                mentions=("`model.weights`",),
            ),
        ),
    ),
    Example(
        rule="DPD-SRV-214",
        good=(_prefill(FI_LOG_LEVEL="info", LMCACHE_LOG_LEVEL="DEBUG"),),
        bad=(
            Bad(case=_prefill(PYTHONHASHSEED="1"), at="serving.prefill.environment.PYTHONHASHSEED"),
            Bad(
                case=_prefill(FI_EFA_ENABLE_SHM_TRANSFER="1"),
                at="serving.prefill.environment.FI_EFA_ENABLE_SHM_TRANSFER",
            ),
            Bad(
                case=_prefill(LMCACHE_PD_PEER_HOST="decode"),
                at="serving.prefill.environment.LMCACHE_PD_PEER_HOST",
            ),
            Bad(
                case=_prefill(LMCACHE_PD_PROXY_PORT="1"),
                at="serving.prefill.environment.LMCACHE_PD_PROXY_PORT",
            ),
            Bad(
                case=_prefill(VLLM_NIXL_SIDE_CHANNEL_HOST="0.0.0.0"),
                at="serving.prefill.environment.VLLM_NIXL_SIDE_CHANNEL_HOST",
            ),
        ),
    ),
    Example(
        rule="DPD-SRV-215",
        good=(
            _decode_arguments("--max-logprobs", "20"),
            {
                **_decode_arguments("--attention-backend", "FLASHINFER", "--seed", "1"),
                "serving.prefill.extra_args": ["--attention_backend=FLASHINFER"],
            },
            {
                "serving.prefill.environment": {"VLLM_ATTENTION_BACKEND": "FLASH_ATTN"},
                "serving.decode.environment": {"VLLM_ATTENTION_BACKEND": "FLASH_ATTN"},
            },
        ),
        bad=(
            Bad(
                case=_decode_arguments("--attention-backend", "FLASHINFER"),
                at="serving.decode.extra_args",
                mentions=("prefill nothing, decode `FLASHINFER`",),
            ),
            Bad(
                case={
                    **_decode_arguments("--hf-overrides.rope_theta", "1"),
                    "serving.prefill.extra_args": ["--hf-overrides.rope_theta", "2"],
                },
                at="serving.decode.extra_args",
                mentions=("prefill `rope_theta 2`, decode `rope_theta 1`",),
            ),
            Bad(
                case=_prefill(VLLM_KV_CACHE_LAYOUT="NHD"),
                at="serving.decode.environment",
                mentions=("`NHD`",),
            ),
        ),
    ),
    Example(
        rule="DPD-SRV-303",
        good=(_P5EN, {"serving.engine.nixl": "0.9.0"}, {"serving.engine.nixl": "1.0.0", **_P5EN}),
        bad=(
            Bad(
                case={"serving.engine.nixl": "0.9.0", **_P5EN},
                at="serving.engine.nixl",
                mentions=("NIXL 0.9.0", "32 devices at prefill, 16 at decode"),
            ),
        ),
    ),
    Example(
        rule="DPD-SRV-304",
        good=(
            {"serving.engine.nixl": "0.8.1"},
            {"serving.engine.nixl": "0.9.0", "serving.tensor_parallel": 4},
            {"serving.engine.nixl": "0.9", "serving.tensor_parallel": 4},
            # 16 devices of a whole node are not too many
            {
                "serving.engine.nixl": "0.8.0",
                "hyperpod.instance_groups.0.instance_type": "ml.p5en.48xlarge",
                **_P5EN,
            },
        ),
        bad=(
            Bad(
                case={"serving.engine.nixl": "0.8.0"},
                at="serving.engine.nixl",
                besides=("serving.engine.nixl",),
                mentions=("overflows", "a prefill worker", "a decode worker", "32 EFA devices"),
            ),
            Bad(
                case={"serving.engine.nixl": "0.8.1", "serving.tensor_parallel": 4},
                at="serving.engine.nixl",
                besides=("serving.engine.nixl",),
                mentions=("wrong EFA devices", "4 GPUs and 16 EFA devices"),
            ),
        ),
    ),
    Example(
        rule="DPD-SRV-311",
        good=(_prefill(LD_LIBRARY_PATH="/opt/amazon/efa/lib:/usr/local/cuda/lib64"), _prefill(HOME="$HOME")),
        bad=(
            Bad(
                case=_prefill(LD_LIBRARY_PATH="/opt/amazon/efa/lib:${LD_LIBRARY_PATH}"),
                at="serving.prefill.environment.LD_LIBRARY_PATH",
            ),
            Bad(
                case=_prefill(LD_LIBRARY_PATH="/usr/local/cuda/lib64"),
                at="serving.prefill.environment.LD_LIBRARY_PATH",
                mentions=("/opt/amazon/efa/lib",),
            ),
        ),
    ),
    Example(
        rule="DPD-SRV-312",
        good=({"serving.huge_pages_mib": 0},),
        bad=(
            Bad(
                case={"serving.huge_pages_mib": 5120},
                at="serving.huge_pages_mib",
                mentions=("`huge_pages_mib: 5120`",),
            ),
        ),
    ),
    Example(
        rule="DPD-SRV-313",
        good=(
            {"serving.shared_memory_gib": 1664},
            {"serving.tensor_parallel": 4, "serving.shared_memory_gib": 832},
        ),
        bad=(
            Bad(
                case={"serving.shared_memory_gib": 1665},
                at="serving.shared_memory_gib",
                besides=("serving.shared_memory_gib",),
                mentions=(
                    "a prefill worker",
                    "a decode worker",
                    "1793 GiB needed with 32 EFA devices",
                    "1792 GiB",
                    "at most 1664",
                ),
            ),
            Bad(
                case={"serving.shared_memory_gib": 1664, "serving.huge_pages_mib": 1024},
                at="serving.shared_memory_gib",
                besides=("serving.shared_memory_gib",),
                mentions=("1791 GiB",),
            ),
            Bad(
                case={"serving.shared_memory_gib": 1664, "serving.huge_pages_mib": 1025},
                at="serving.shared_memory_gib",
                besides=("serving.shared_memory_gib",),
                mentions=("1790 GiB",),
            ),
        ),
    ),
    Example(
        rule="DPD-SRV-314",
        good=(
            _prefill(NCCL_SOCKET_IFNAME="^pod-id-link0,docker,lo,veth"),
            _prefill(NCCL_SOCKET_IFNAME="eth0"),
        ),
        bad=(
            Bad(
                case=_prefill(NCCL_SOCKET_IFNAME="^lo,docker"),
                at="serving.prefill.environment.NCCL_SOCKET_IFNAME",
                mentions=("`pod-id-link0`",),
            ),
            Bad(case=_prefill(NCCL_SOCKET_IFNAME="lo"), at="serving.prefill.environment.NCCL_SOCKET_IFNAME"),
        ),
    ),
    Example(
        rule="DPD-SRV-315",
        good=({"serving.engine.image": "lmcache/vllm-openai:v0.4.3"},),
        bad=(
            Bad(
                case={"serving.engine.image": "vllm/vllm-openai:v0.25.1"},
                at="serving.engine.image",
                mentions=("`vllm/vllm-openai:v0.25.1`", "images/worker"),
            ),
            Bad(
                case={"platform.images.worker": "registry.example/worker@sha256:" + "0" * 64},
                at="platform.images.worker",
            ),
        ),
    ),
    Example(
        rule="DPD-SRV-318",
        good=({"serving.huge_pages_mib": 5120},),
        bad=(
            Bad(
                case={"serving.huge_pages_mib": 5121}, at="serving.huge_pages_mib", mentions=("5121", "5122")
            ),
        ),
    ),
    Example(
        rule="DPD-SRV-319",
        good=({}, {"serving.engine.nixl": "0.9.0", **_P5EN}),
        bad=(
            Bad(
                case=_P5EN,
                at="hyperpod.instance_groups",
                mentions=("32 devices at prefill, 16 at decode", "`ml.p5en.48xlarge`"),
            ),
        ),
    ),
    Example(
        rule="DPD-SRV-410",
        good=(
            _prefill(NIXL_LOG_LEVEL="info"),
            _OPERATOR,
            {**_OPERATOR, "serving.transfer.decode_pd_buffer_gib": 8.0},
            {**_OPERATOR, "routing.estimator": "characters", "routing.policy": "roundrobin"},
        ),
        bad=(
            Bad(
                case={**_OPERATOR, **_prefill(NIXL_LOG_LEVEL="info")},
                at="serving.prefill.environment",
                mentions=("`NIXL_LOG_LEVEL`", "`backend: self-managed`"),
            ),
            *(
                Bad(case={**_OPERATOR, path: given}, at=path, mentions=(quoted, "`backend: self-managed`"))
                for path, given, quoted in (
                    ("serving.decode.environment", {"A": "b"}, "`A`"),
                    ("serving.longest_generation_seconds", 900, "`longest_generation_seconds: 900`"),
                    ("serving.transfer.decode_pd_buffer_gib", 16.0, "`decode_pd_buffer_gib: 16.0`"),
                    ("serving.transfer.init_port_base", 7310, "`init_port_base: 7310`"),
                    ("serving.transfer.alloc_port_base", 7410, "`alloc_port_base: 7410`"),
                    ("serving.transfer.port_epochs", 4, "`port_epochs: 4`"),
                    ("serving.transfer.allocation_timeout_seconds", 5.0, "`allocation_timeout_seconds: 5.0`"),
                    ("serving.transfer.chunk_tokens", 512, "`chunk_tokens: 512`"),
                    ("serving.huge_pages_mib", 5120, "`huge_pages_mib: 5120`"),
                    ("serving.shared_memory_gib", 64, "`shared_memory_gib: 64`"),
                    ("serving.security.workers", "privileged", "`workers: privileged`"),
                    ("routing.strategy", "land", "`strategy: land`"),
                    ("routing.affinity", "prefix", "`affinity: prefix`"),
                    ("routing.notification_timeout_seconds", 5.0, "`notification_timeout_seconds: 5.0`"),
                    ("routing.max_concurrent_requests", 64, "`max_concurrent_requests: 64`"),
                    ("routing.max_queued_mib", 64, "`max_queued_mib: 64`"),
                    ("routing.api_keys_secret", "keys", "`api_keys_secret: keys`"),
                    ("routing.load_balancer", {"scheme": "internal"}, "`load_balancer`"),
                    ("routing.client_namespaces", ["chat"], "`chat`"),
                    ("routing.cpu", 4.0, "`cpu: 4.0`"),
                    ("routing.memory_gib", 16, "`memory_gib: 16`"),
                    ("routing.tracing_endpoint", "http://otel:4318", "`tracing_endpoint: http://otel:4318`"),
                    ("routing.threshold_tokens", "never", "`threshold_tokens: never`"),
                    ("model.source.delivery", "sync", "`delivery: sync`"),
                )
            ),
        ),
    ),
    Example(
        rule="DPD-SRV-415",
        good=(
            {},
            {
                **_OPERATOR,
                "routing.policy": "session",
                "serving.instance_cache": False,
                "serving.operator.metrics": False,
            },
        ),
        bad=(
            *(
                Bad(case={path: given}, at=path, mentions=(quoted, "`backend: operator`"))
                for path, given, quoted in (
                    ("routing.policy", "session", "`policy: session`"),
                    ("serving.instance_cache", False, "`instance_cache: false`"),
                    ("serving.operator.metrics", False, "`metrics: false`"),
                    ("serving.operator.environment", {"A": "b"}, "`A`"),
                    ("serving.operator.topology", {"zone_name": "us-east-1a"}, "`topology`"),
                )
            ),
        ),
    ),
    Example(
        rule="DPD-SRV-416",
        good=(
            {**_addon("v1.4.0-eksbuild.1"), "serving.instance_cache": False},
            {**_addon("v1.3.0-eksbuild.1"), "model.source": _HUB},
            # DPD-EKS-010 says these
            {**_addon("v1.2.0-eksbuild.1"), "serving.instance_cache": False},
            {**_addon("newest"), "serving.instance_cache": False},
            {"platform.inference_operator.version": "v1.3.0-eksbuild.1"},
        ),
        bad=(
            Bad(
                case={**_addon("v1.3.0-eksbuild.1"), "serving.instance_cache": False},
                at="serving.instance_cache",
                mentions=(
                    "operator 3.3",
                    "v1.4.0-eksbuild.1",
                    "`platform.inference_operator.version: v1.3.0",
                ),
            ),
        ),
    ),
    Example(
        rule="DPD-SRV-417",
        good=(
            {**_OPERATOR, "hyperpod.instance_groups.0.taints": [{"key": "a", "effect": "PreferNoSchedule"}]},
            {**_OPERATOR, **_ONE_GROUP},
            {**_OPERATOR, "serving.tensor_parallel": 4},
            {**_ONE_GROUP, "serving.tensor_parallel": 4},
        ),
        bad=(
            Bad(
                case={
                    **_OPERATOR,
                    "hyperpod.instance_groups.0.taints": [{"key": "team", "effect": "NoSchedule"}],
                },
                at="hyperpod.instance_groups[0].taints",
                mentions=("`team`", "`backend: self-managed`"),
            ),
            Bad(
                case={**_OPERATOR, **_ONE_GROUP, "serving.tensor_parallel": 4},
                at="serving.prefill.instance_group",
                mentions=("`prefill` with 4 GPUs", "8 GPUs per worker", "`backend: self-managed`"),
            ),
        ),
    ),
    Example(
        rule="DPD-SRV-418",
        good=(
            {**_OPERATOR, "name": "a" * 35},
            {"name": "a" * 40},
            {
                **_OPERATOR,
                "serving.operator.certificate": {
                    "arn": _CERTIFICATE,
                    "domain_name": "llm.example.com",
                    "hosted_zone_id": "Z0123456789ABCDEFGHIJ",
                },
            },
            {**_OPERATOR, "serving.operator.certificate_output_s3_uri": "s3://hyperpod-tls-mine/dpd"},
        ),
        bad=(
            Bad(
                case={**_OPERATOR, "name": "a" * 36},
                at="name",
                mentions=("64 characters", "63 characters", "to 35 characters", "`backend: self-managed`"),
            ),
            Bad(
                case={**_OPERATOR, "serving.operator.endpoint_name": "llama-3.3"},
                at="serving.operator.endpoint_name",
                mentions=("`llama-3.3`",),
            ),
            Bad(
                case={
                    **_OPERATOR,
                    "serving.operator.certificate": {
                        "arn": "arn:aws:iam::123456789012:server-certificate/mine",
                        "domain_name": "llm.example.com",
                    },
                },
                at="serving.operator.certificate.arn",
                mentions=("server-certificate",),
            ),
            Bad(
                case={
                    **_OPERATOR,
                    "serving.operator.certificate": {"arn": _CERTIFICATE, "domain_name": "*.example.com"},
                },
                at="serving.operator.certificate.domain_name",
                mentions=("`domain_name: *.example.com`",),
            ),
            Bad(
                case={
                    **_OPERATOR,
                    "serving.operator.certificate": {
                        "arn": _CERTIFICATE,
                        "domain_name": "llm.example.com",
                        "hosted_zone_id": "example.com",
                    },
                },
                at="serving.operator.certificate.hosted_zone_id",
            ),
            Bad(
                case={**_OPERATOR, "serving.operator.certificate_output_s3_uri": "hyperpod-tls-mine"},
                at="serving.operator.certificate_output_s3_uri",
            ),
        ),
    ),
    Example(
        rule="DPD-SRV-419",
        good=(
            {**_OPERATOR, "serving.operator.second_cache": {"backend": "redis", "url": "redis://cache:6379"}},
            {
                **_OPERATOR,
                "serving.operator.second_cache": {"backend": "tieredstorage"},
                "hyperpod.tiered_storage_memory_percent": 20,
            },
            {
                **_OPERATOR,
                "serving.operator.max_queued_requests_per_pod": 8,
                "serving.operator.max_concurrent_requests_per_pod": 32,
            },
            # DPD-SRV-415 says this one
            {"serving.operator.topology": {"same_zone": False}},
        ),
        bad=(
            Bad(
                case={**_OPERATOR, "serving.operator.second_cache": {"backend": "redis"}},
                at="serving.operator.second_cache.url",
                mentions=("`backend: redis`",),
            ),
            Bad(
                case={**_OPERATOR, "serving.operator.second_cache": {"backend": "tieredstorage"}},
                at="serving.operator.second_cache.backend",
                mentions=("`hyperpod.tiered_storage_memory_percent`",),
            ),
            Bad(
                case={**_OPERATOR, "serving.operator.topology": {"same_zone": False}},
                at="serving.operator.topology.same_zone",
                mentions=("`same_zone: false`",),
            ),
            Bad(
                case={
                    **_OPERATOR,
                    "serving.operator.certificate": {"arn": _CERTIFICATE, "domain_name": "llm.example.com"},
                    "serving.operator.certificate_output_s3_uri": "s3://hyperpod-tls-mine/",
                },
                at="serving.operator.certificate_output_s3_uri",
            ),
            Bad(
                case={**_OPERATOR, "serving.operator.max_queued_requests_per_pod": 8},
                at="serving.operator.max_queued_requests_per_pod",
                mentions=("`max_concurrent_requests_per_pod`",),
            ),
        ),
    ),
    Example(
        rule="DPD-SRV-420",
        good=({**_OPERATOR, "serving.operator.environment": {"VLLM_LOGGING_LEVEL": "DEBUG"}},),
        bad=(
            *(
                Bad(
                    case={**_OPERATOR, "serving.operator.environment": {name: "1"}},
                    at="serving.operator.environment",
                    mentions=(f"`{name}`", where),
                )
                for name, where in (
                    ("PD_BUFFER_SIZE", "`serving.transfer.pd_buffer_gib`"),
                    ("PYTHONHASHSEED", "`serving.transfer.hash_seed`"),
                    ("LMCACHE_CONFIG_FILE", "`serving.operator.cache_config_file`"),
                    ("LMCACHE_PD_ROLE", "the operator writes"),
                )
            ),
        ),
    ),
    Example(
        rule="DPD-SRV-421",
        good=(
            _OPERATOR,
            {**_OPERATOR, "serving.engine.name": "lmcache-v0.4.3"},
            {"serving.engine.vllm": "0.25.2"},
        ),
        bad=(
            Bad(
                case={**_OPERATOR, "serving.engine.name": "vllm-0.25.1"},
                at="serving.engine",
                mentions=("LMCache 0.5.3", "`backend: self-managed`"),
            ),
            Bad(
                case={**_OPERATOR, "serving.engine.lmcache": "0.4.6"},
                at="serving.engine",
                mentions=("vLLM 0.19.0, LMCache 0.4.6",),
            ),
        ),
    ),
    Example(
        rule="DPD-SRV-422",
        good=(
            {"serving.prefill.replicas": 9},
            {"serving.prefill.scaling": {"maximum": 3}},
            # DPD-SRV-010 says this one
            {"serving.prefill.scaling": {"maximum": 3}, "serving.decode.replicas": 0},
            {
                "serving.prefill.scaling": {"minimum": 2, "maximum": 4},
                "serving.decode.scaling": {"minimum": 2, "maximum": 2},
            },
            {
                "serving.prefill.scaling": {"maximum": 4},
                "serving.prefillers_per_decoder": {"minimum": 1, "maximum": 4},
            },
        ),
        bad=(
            Bad(
                case={"serving.prefill.scaling": {"maximum": 4}},
                at="serving.prefill.scaling",
                mentions=("4 prefillers and 1 decoders", "4.00 prefillers per decoder", "1 to 3"),
            ),
            Bad(
                case={"serving.decode.scaling": {"maximum": 2}},
                at="serving.decode.scaling",
                mentions=("1 prefillers and 2 decoders", "0.50 prefillers per decoder"),
            ),
        ),
    ),
    Example(
        rule="DPD-SRV-423",
        good=(
            {"platform.scraping": "none"},
            _SCALED,
            {**_SCALED, "platform.scraping": "prometheus-operator"},
            # the operator scrapes its pods itself
            {**_OPERATOR, **_SCALED, "platform.scraping": "none"},
            {**_OPERATOR, "serving.operator.metrics": False},
        ),
        bad=(
            Bad(
                case={**_SCALED, "platform.scraping": "none"},
                at="platform.scraping",
                mentions=("`scraping: none`", "`serving.prefill.scaling`"),
            ),
            Bad(
                case={**_OPERATOR, **_SCALED, "serving.operator.metrics": False},
                at="serving.operator.metrics",
                mentions=("`metrics: false`",),
            ),
        ),
    ),
    Example(
        rule="DPD-SRV-424",
        good=(
            _SCALED,
            {"serving.prefill.scaling": {"minimum": 1, "maximum": 1}},
            {"serving.prefill.replicas": 3, **_SCALED},
        ),
        bad=(
            Bad(
                case={"serving.prefill.scaling": {"minimum": 4, "maximum": 3}},
                at="serving.prefill.scaling",
                mentions=("`minimum: 4`", "`maximum: 3`"),
            ),
            Bad(
                case={"serving.prefill.replicas": 4, **_SCALED},
                at="serving.prefill.replicas",
                mentions=("`replicas: 4`", "1 to 3"),
            ),
            Bad(
                case={"serving.prefillers_per_decoder": {"minimum": 3.0, "maximum": 2.0}},
                at="serving.prefillers_per_decoder",
            ),
        ),
    ),
    Example(
        rule="DPD-SRV-425",
        good=(
            _SCALED,
            {"platform.scraping": "prometheus-operator"},
            {**_OPERATOR, **_SCALED, "platform.scraping": "prometheus-operator"},
        ),
        bad=(
            Bad(
                case={**_SCALED, "platform.scraping": "prometheus-operator"},
                at="platform.scraping",
                mentions=("`scraping: prometheus-operator`", "`remoteWrite`"),
            ),
        ),
    ),
    Example(
        rule="DPD-SRV-426",
        good=(
            {},
            {"routing.tracing_endpoint": "http://otel.tracing.svc:4318"},
            {"routing.tracing_endpoint": "https://otlp.example.com/otlp/"},
        ),
        bad=(
            Bad(
                case={"routing.tracing_endpoint": "grpc://otel.tracing.svc:4317"},
                at="routing.tracing_endpoint",
                mentions=("grpc://otel.tracing.svc:4317", "4318"),
            ),
            Bad(
                case={"routing.tracing_endpoint": "http://otel.tracing.svc:4318/v1/traces/"},
                at="routing.tracing_endpoint",
                mentions=("twice", "`/v1/traces`"),
            ),
        ),
    ),
    Example(
        rule="DPD-SRV-427",
        good=({}, {"routing.tracing_endpoint": "http://otel.tracing.svc:4318"}),
        bad=(
            Bad(
                case={"routing.tracing_endpoint": "http://otel.tracing.svc:4317"},
                at="routing.tracing_endpoint",
                mentions=("gRPC", "4318"),
            ),
        ),
    ),
    Example(
        rule="DPD-SRV-428",
        good=(
            {"platform.images.router": f"registry.example/router@sha256:{'1' * 64}"},
            {"routing.tracing_endpoint": "http://otel.tracing.svc:4318"},
        ),
        bad=(
            Bad(
                case={
                    "routing.tracing_endpoint": "http://otel.tracing.svc:4318",
                    "platform.images.router": f"registry.example/router@sha256:{'1' * 64}",
                },
                at="platform.images.router",
                mentions=("`dpd-router[otel]`", "`router: registry.example/router@sha256:"),
            ),
            Bad(
                case={
                    "routing.tracing_endpoint": "http://otel.tracing.svc:4318",
                    "serving.engine.image": "registry.example/vllm:1",
                },
                at="serving.engine.image",
                mentions=("OpenTelemetry",),
            ),
        ),
    ),
    Example(
        rule="DPD-SRV-506",
        good=(
            {"serving.transfer.init_port_base": 1000},
            {"serving.transfer.alloc_port_base": 9936},
            {**_NIXL, "serving.transfer.init_port_base": 900},
        ),
        bad=(
            Bad(
                case={"serving.transfer.alloc_port_base": 9937},
                at="serving.transfer.alloc_port_base",
                mentions=("9937-10000",),
            ),
            Bad(
                case={"serving.transfer.init_port_base": 999},
                at="serving.transfer.init_port_base",
                mentions=("999-1062",),
            ),
        ),
    ),
    Example(
        rule="DPD-SRV-507",
        good=(
            {"serving.decode.prefix_caching": False},
            {"serving.decode.prefix_caching": True, "routing.strategy": "land"},
            {"serving.decode.prefix_caching": True, **_NIXL},
        ),
        bad=(
            Bad(
                case={"serving.decode.prefix_caching": True},
                at="serving.decode.prefix_caching",
                mentions=("`prefix_caching: true`", "`routing.strategy: continue`"),
            ),
            Bad(
                case={"serving.decode.prefix_caching": False, "routing.strategy": "land"},
                at="serving.decode.prefix_caching",
                mentions=("`routing.strategy: land`",),
            ),
        ),
    ),
    Example(
        rule="DPD-SRV-511",
        good=(
            {"routing.strategy": "land"},
            {"routing.strategy": "continue", **_OLD},
            {"routing.strategy": "land", **_OLD, **_NIXL},
        ),
        bad=(
            Bad(
                case={"routing.strategy": "land", **_OLD},
                at="routing.strategy",
                mentions=("`strategy: land` with vLLM 0.19.0 and LMCache 0.4.3", "`vllm-0.25.1`"),
            ),
        ),
    ),
    Example(
        rule="DPD-SRV-512",
        good=({"serving.engine.lmcache": "0.4.5"}, {**_OPERATOR, **_OLD}, {**_OLD, **_NIXL}),
        bad=(Bad(case=_OLD, at="serving.engine", mentions=("LMCache 0.4.3", "0.4.5", "`vllm-0.25.1`")),),
    ),
    Example(
        rule="DPD-SRV-514",
        good=({"serving.prefill.prefix_caching": False}, {"serving.prefill.prefix_caching": True, **_NIXL}),
        bad=(Bad(case={"serving.prefill.prefix_caching": True}, at="serving.prefill.prefix_caching"),),
    ),
)
