"""Wrong edits of rendered manifests: ours, AWS's example, and sets written as public ones are."""

from collections.abc import Iterator
from pathlib import Path

from tools.mutations.edit import Edit

SELF_MANAGED = Path("manifests/rendered/llama-3-3-70b-p5/self-managed")
BASELINE = SELF_MANAGED.with_name("baseline")
SETS = Path("tests/unit/lint/sets")
AWS = SETS / "aws-dpd-example.yaml"
PAIR = SETS / "lmcache-pair"
NIXL = SETS / "nixl-pair"

BASES = (SELF_MANAGED, BASELINE, AWS, PAIR, NIXL)


def _ours(rule: int, file: str, old: str, new: str, nth: int = 0) -> Edit:
    return Edit(
        expects=f"DPD-LINT-{rule:03d}", base=SELF_MANAGED, file=f"{file}.yaml", old=old, new=new, nth=nth
    )


def _baseline(rule: int, old: str, new: str) -> Edit:
    return Edit(expects=f"DPD-LINT-{rule:03d}", base=BASELINE, file="colocated.yaml", old=old, new=new)


def _aws(rule: int, old: str, new: str, nth: int = 0) -> Edit:
    return Edit(expects=f"DPD-LINT-{rule:03d}", base=AWS, old=old, new=new, nth=nth)


def _pair(rule: int, old: str, new: str, nth: int = 0, file: str = "workers") -> Edit:
    return Edit(expects=f"DPD-LINT-{rule:03d}", base=PAIR, file=f"{file}.yaml", old=old, new=new, nth=nth)


def _nixl(rule: int, old: str, new: str, nth: int = 0) -> Edit:
    return Edit(expects=f"DPD-LINT-{rule:03d}", base=NIXL, file="manifests.yaml", old=old, new=new, nth=nth)


def edits() -> Iterator[Edit]:
    """Yield every wrong edit of a set of manifests."""
    yield from _of_our_hand_off()
    yield from _of_our_arguments()
    yield from _of_our_environment()
    yield from _of_our_router_and_policies()
    yield from _of_the_operator()
    yield from _of_a_public_pair()
    yield from _of_nixl()


def _of_our_hand_off() -> Iterator[Edit]:
    """LMCache's file, its variables and what both sides have to agree on."""
    yield _ours(1, "workers", "kind: ServiceAccount", "kind: ServiceAcount")
    yield _ours(2, "decode", "configMap:\n            name: decode", "configMap:\n            name: decoder")
    yield _ours(
        4,
        "workers",
        "apiVersion: v1",
        "apiVersion: v1\nkind: ServiceAccount\nmetadata:\n  name: worker\n  namespace: llama-3-3-70b-p5-workers\n---\napiVersion: v1",
    )
    yield _ours(5, "prefill", "value: us-east-1", "value:")
    yield _ours(5, "decode", "- '16384'", "- 16384")
    yield _ours(
        101,
        "decode",
        "name: DPD_TENSOR_PARALLEL\n              value: '8'",
        "name: DPD_TENSOR_PARALLEL\n              value: '4'",
    )
    yield _ours(
        102,
        "decode",
        "--tensor-parallel-size\n            - '8'",
        "--tensor-parallel-size\n            - '4'",
    )
    yield _ours(103, "decode", "value: '7400'", "value: '7304'")
    yield _ours(103, "decode", "value: '7400'", "value: '7450'")
    yield _ours(104, "prefill", "pd_buffer_size: 8587837440", "pd_buffer_size: 524288000")
    yield _ours(105, "decode", "pd_buffer_size: 8587837440", "pd_buffer_size: 4293918720")
    yield _ours(106, "prefill", "pd_buffer_size: 8587837440", "pd_buffer_size: 8Gi")
    yield _ours(106, "decode", "pd_buffer_size: 8587837440", "pd_buffer_size: 8589")
    yield _ours(
        107,
        "decode",
        "name: PYTHONHASHSEED\n              value: '0'",
        "name: PYTHONHASHSEED\n              value: '1'",
    )
    yield _ours(
        107,
        "prefill",
        "name: PYTHONHASHSEED\n              value: '0'",
        "name: PYTHONHASHSEED\n              value: random",
    )
    yield _ours(107, "prefill", "- name: PYTHONHASHSEED", "- name: PYTHON_HASH_SEED")
    yield _ours(108, "prefill", "    pd_allocation_timeout_sec: 10.0\n", "")
    yield _ours(108, "router", "--notification-timeout-seconds=15", "--notification-timeout-seconds=5")
    yield _ours(109, "decode", "chunk_size: 256", "chunk_size: 512")
    yield _ours(109, "decode", "pd_backend_mode: async", "pd_backend_mode: sync")
    yield _ours(109, "decode", 'image: "${dpd:WORKER_IMAGE}"', "image: lmcache/vllm-openai:v0.5.3")
    yield _ours(110, "prefill", "pd_role: sender", "nixl_role: sender\n    pd_role: sender")
    yield _ours(110, "decode", "pd_max_prefill_len:", "pd_max_prefil_len:")
    yield _ours(111, "prefill", "pd_role: sender", "pd_role: sender\n    pd_skip_proxy_notification: true")
    yield _ours(
        112,
        "prefill",
        "pd_proxy_host: router.llama-3-3-70b-p5-system.svc.cluster.local",
        "pd_proxy_host: localhost",
    )
    yield _ours(
        112,
        "prefill",
        "pd_proxy_host: router.llama-3-3-70b-p5-system",
        "pd_proxy_host: router.llama-3-3-70b-p5-workers",
    )
    yield _ours(112, "prefill", "pd_proxy_port: 7500", "pd_proxy_port: 7501")
    yield _ours(112, "prefill", "    pd_proxy_port: 7500\n", "")
    yield _ours(113, "decode", "pd_peer_host: 0.0.0.0", "pd_peer_host: decode.llama-3-3-70b-p5-workers.svc")
    yield _ours(115, "decode", ',"skip_last_n_tokens":1', "")
    yield _ours(115, "decode", '"skip_last_n_tokens":1', '"skip_last_n_tokens":2')
    yield _ours(116, "prefill", '"discard_partial_chunks":false', '"discard_partial_chunks":true')
    yield _ours(117, "decode", "local_cpu: false", "local_cpu: true")
    yield _ours(118, "decode", "pd_role: receiver", "pd_role: receiver\n    pd_bidirectional: true")
    yield _ours(119, "decode", '"lmcache_rpc_port":"decode"', '"lmcache_rpc_port":"prefill"')
    yield _ours(121, "prefill", "- '0.86'", "- '0.9'")
    yield _ours(122, "decode", "- '0.86'", "- '0.25'")
    yield _baseline(122, "- '0.9'", "- '0.25'")
    yield _ours(123, "prefill", "enable_pd: true", "enable_pd: false")
    yield _ours(123, "decode", "transfer_channel: nixl", "transfer_channel: tcp")
    yield _ours(123, "decode", "    pd_buffer_device: cuda\n", "")
    yield _ours(124, "decode", "pd_role: receiver", "pd_role: sender")
    yield _ours(124, "prefill", '"kv_role":"kv_producer"', '"kv_role":"kv_both"')
    yield _ours(125, "prefill", "- --kv-transfer-config", "- --kv-events-config")
    yield _ours(125, "decode", '"kv_load_failure_policy":"fail",', '"kv_load_failure_policy":"fail"')


def _of_our_arguments() -> Iterator[Edit]:
    """Arguments and connector of the rendered workers."""
    yield _ours(201, "prefill", "- LIBFABRIC", "- UCX")
    yield _ours(204, "prefill", '"kv_role":', '"kv_rank":0,"kv_role":')
    yield _ours(205, "prefill", "- --enforce-eager", "- --disable-log-requests")
    yield _ours(205, "decode", "- --enable-prompt-tokens-details", "- --enable-prompt-token-details")
    yield _ours(206, "decode", '"kv_load_failure_policy":"fail"', '"kv_load_failure_policy":"ignore"')
    yield _ours(
        206,
        "decode",
        '"discard_partial_chunks":false',
        '"kv_load_failure_policy":"fail","discard_partial_chunks":false',
    )
    yield _ours(207, "decode", "- bfloat16", "- float16")
    yield _ours(207, "decode", "llama-3.3-70b-instruct/6f6073b", "llama-3.3-70b-instruct/0000000")
    yield _ours(209, "prefill", "- '16384'", "- '262144'")
    yield _ours(213, "decode", "LMCacheConnectorV1", "LMCacheConnector")
    yield _ours(214, "decode", "- '0.86'", "- '86'")
    yield _ours(214, "prefill", "--tensor-parallel-size\n            - '8'", "--tensor-parallel-size")
    yield _ours(507, "decode", "- --no-enable-prefix-caching", "- --enable-prefix-caching")
    yield _ours(508, "prefill", "- --no-enable-prefix-caching", "- --enable-prefix-caching")
    yield _ours(515, "decode", "            - --enable-prompt-tokens-details\n", "")


def _of_our_environment() -> Iterator[Edit]:
    """Environment, resources, placement and security of the rendered workers."""
    yield _ours(316, "prefill", "- name: FI_EFA_ENABLE_SHM_TRANSFER", "- name: FI_EFA_DISABLE_SHM_TRANSFER")
    yield _ours(
        211,
        "prefill",
        "- name: FI_PROVIDER",
        "- name: UCX_TLS\n              value: cuda_ipc,cuda_copy,tcp\n            - name: FI_PROVIDER",
    )
    yield _ours(212, "decode", "failureThreshold: 87", "failureThreshold: 12")
    yield _ours(
        216,
        "decode",
        "name: VLLM_USE_V2_MODEL_RUNNER\n              value: '0'",
        "name: VLLM_USE_V2_MODEL_RUNNER\n              value: '1'",
    )
    yield _ours(216, "decode", "- name: VLLM_USE_V2_MODEL_RUNNER", "- name: VLLM_USE_V1_MODEL_RUNNER")
    yield _ours(
        301,
        "prefill",
        "              vpc.amazonaws.com/efa: 32\n              memory: 1792Gi\n              ephemeral-storage: 50Gi\n            limits:\n              nvidia.com/gpu: 8\n              vpc.amazonaws.com/efa: 32\n",
        "              memory: 1792Gi\n              ephemeral-storage: 50Gi\n            limits:\n              nvidia.com/gpu: 8\n",
    )
    yield _ours(301, "decode", "vpc.amazonaws.com/efa: 32", "vpc.amazonaws.com/efa: 16")
    yield _ours(301, "prefill", "value: efa", "value: tcp")
    yield _ours(302, "prefill", "vpc.amazonaws.com/efa: 32", "vpc.amazonaws.com/efa: 8", nth=1)
    yield _ours(302, "decode", "nvidia.com/gpu: 8", "nvidia.com/gpu: 4", nth=1)
    yield _ours(303, "decode", "vpc.amazonaws.com/efa: 32", "vpc.amazonaws.com/efa: 16", nth=1)
    yield _ours(307, "prefill", "        sagemaker.amazonaws.com/instance-group-name: prefill\n", "")
    yield _ours(308, "prefill", "- IPC_LOCK", "- SYS_PTRACE")
    yield _ours(308, "decode", "runAsUser: 0", "runAsUser: 1000")
    yield _ours(
        309,
        "decode",
        "name: FI_EFA_ENABLE_SHM_TRANSFER\n              value: '0'",
        "name: FI_EFA_ENABLE_SHM_TRANSFER\n              value: '1'",
    )
    yield _ours(
        310,
        "decode",
        "- name: cache\n          emptyDir: {}",
        "- name: cache\n          hostPath:\n            path: /dev/infiniband",
    )
    yield _ours(
        311,
        "prefill",
        "- name: FI_PROVIDER",
        "- name: LD_LIBRARY_PATH\n              value: /opt/amazon/efa/lib:$LD_LIBRARY_PATH\n            - name: FI_PROVIDER",
    )
    yield _ours(
        312,
        "prefill",
        "name: FI_EFA_USE_HUGE_PAGE\n              value: '0'",
        "name: FI_EFA_USE_HUGE_PAGE\n              value: '1'",
    )
    yield _ours(313, "decode", "memory: 1792Gi", "memory: 128Gi", nth=1)
    yield _ours(314, "prefill", "^lo,docker,pod-id-link0", "^lo,docker")
    yield _ours(315, "decode", "            medium: Memory\n", "")


def _of_our_router_and_policies() -> Iterator[Edit]:
    """Router, Services and NetworkPolicies."""
    yield _ours(3, "router", "- dpd-router", "- nginx")
    yield _ours(1, "router", "- dpd-router", "- nginx")
    yield _ours(402, "router", "replicas: 1", "replicas: 2")
    yield _ours(402, "router", "            - --router-service=router\n", "")
    yield _ours(403, "router", "--tensor-parallel=8", "--tensor-parallel=4")
    yield _ours(403, "router", "--decoder-buffer-chunks=819", "--decoder-buffer-chunks=1638")
    yield _ours(403, "router", "--init-port-base=7300", "--init-port-base=7310")
    yield _ours(403, "router", "--port-epochs=8", "--port-epochs=4")
    yield _ours(401, "router", "--transfer=lmcache-pd", "--transfer=nixl")
    yield _ours(406, "router", "--threshold=4096", "--threshold=4k")
    yield _ours(407, "router", "--threshold=4096", "--threshold=20000")
    yield _ours(507, "router", "--strategy=continue", "--strategy=land")
    yield _ours(112, "router", "targetPort: 7500", "targetPort: 8081")
    yield _ours(
        112,
        "router",
        "  selector:\n    app.kubernetes.io/component: router",
        "  selector:\n    app.kubernetes.io/component: routers",
    )
    yield _ours(114, "prefill", "type: ClusterIP", "type: LoadBalancer")
    yield _ours(
        114,
        "decode",
        "  selector:\n    app.kubernetes.io/component: decode\n    app.kubernetes.io/instance",
        "  selector:\n    app.kubernetes.io/instance",
    )
    yield _ours(114, "prefill", "path: /health", "path: /v1/completions", nth=1)
    yield _ours(501, "network-policies", "port: 7500", "port: 7501")
    yield _ours(501, "network-policies", "port: 7500", "port: 7501", nth=1)
    yield _ours(501, "network-policies", "endPort: 7463", "endPort: 7407")
    yield _ours(501, "network-policies", "endPort: 7363", "endPort: 7362", nth=1)
    yield _ours(501, "network-policies", "port: 8000", "port: 8080", nth=2)


def _of_the_operator() -> Iterator[Edit]:
    """AWS's own example."""
    yield _aws(411, "inference.sagemaker.aws.amazon.com/v1", "inference.sagemaker.aws.amazon.com/v1alpha1")
    yield _aws(411, "decodingSpec:", "decodeSpec:")
    yield _aws(411, "prefillSpec:\n      replicas: 1", "prefillSpec:\n      env: []\n      replicas: 1")
    yield _aws(411, "routingThreshold:", "routingTreshold:")
    yield _aws(411, "kvCacheSpec:", "kvCache:")
    yield _aws(6, "kind: InferenceEndpointConfig", "kind: InferenceEndpoint")
    yield _aws(412, "decodingSpec:\n      replicas: 1", "decodingSpec:\n      replicas: 2")
    yield _aws(413, "instanceType: ml.p5.48xlarge", "instanceType: ml.g6.48xlarge")
    yield _aws(414, "memory: 1024Gi", "memory: 64Gi")
    yield _aws(415, "server-hyperpod-cuda-v1.1", "server-hyperpod-cuda-v0.9")
    yield _aws(416, '- --max-num-seqs\n        - "16"', '- --max-num-seqs\n        - "64"')
    yield _aws(306, "routingThreshold: 4096", "topologySpec:\n      sameAZ: false")
    yield _aws(406, "routingThreshold: 4096", "routingThreshold: often")
    yield _aws(407, "routingThreshold: 4096", "routingThreshold: 16384")
    yield _aws(102, '- --max-num-seqs\n        - "32"', '- --tensor-parallel-size\n        - "4"')
    yield _aws(302, 'nvidia.com/gpu: "8"', 'nvidia.com/gpu: "4"')
    yield _aws(121, '- "0.75"', '- "0.92"')
    yield _aws(104, '"8589934592"', '"85899345"')
    yield _aws(107, "- name: PYTHONHASHSEED", "- name: PYTHONSEED")


def _of_a_public_pair() -> Iterator[Edit]:
    """StatefulSets with a shell script and LMCache's example proxy."""
    yield _pair(3, "exec vllm serve", "exec sglang serve")
    yield _pair(101, "pd_peer_init_port: [7300, 7301, 7302, 7303]", "pd_peer_init_port: 7300")
    yield _pair(101, "7402, 7403]", "7402]")
    yield _pair(103, "[7400, 7401, 7402, 7403]", "[7303, 7304, 7305, 7306]")
    yield _pair(506, "[7300, 7301, 7302, 7303]", "[17300, 17301, 17302, 17303]")
    yield _pair(201, 'nixl_backends: ["LIBFABRIC"]', 'nixl_backends: ["UCX"]')
    yield _pair(112, 'pd_proxy_host: "proxy.pd.svc"', 'pd_proxy_host: "127.0.0.1"')
    yield _pair(203, "enableServiceLinks: false", "enableServiceLinks: true")
    yield _pair(305, "topologyKey: kubernetes.io/hostname", "topologyKey: topology.kubernetes.io/zone")
    yield _pair(110, 'pd_role: "receiver"', 'pd_role: "receiver"\n        nixl_peer_host: "0.0.0.0"')
    yield _pair(7, 'pd_role: "receiver"', 'pd_role: "receiver"\n            nixl_peer_host: "0.0.0.0"')
    yield _pair(115, ',"skip_last_n_tokens":1', "")
    yield _pair(210, "--enforce-eager", "--no-enable-chunked-prefill")
    yield _pair(209, "--tensor-parallel-size 4", "--tensor-parallel-size 3")
    yield _pair(214, "--gpu-memory-utilization 0.8", "--gpu-memory-utilization 1.8")
    yield _pair(208, "lmcache/vllm-openai:v0.5.3", "lmcache/vllm-openai:v0.5.1")
    yield _pair(512, "lmcache/vllm-openai:v0.5.3", "lmcache/vllm-openai:v0.4.3")
    yield _pair(404, "--proxy-host=0.0.0.0", "--proxy-host=localhost", file="proxy")
    yield _pair(404, "            - --proxy-host=0.0.0.0\n", "", file="proxy")
    yield _pair(402, "strategy: {type: Recreate}", "strategy: {}", file="proxy")
    yield _pair(401, "disagg_proxy_server.py", "vllm-router", file="proxy")
    yield _pair(112, "{name: notify, port: 7500}", "{name: notify, port: 7400}", file="proxy")
    yield _pair(1, "kind: List", "kind: Lists")


def _of_nixl() -> Iterator[Edit]:
    """NixlConnector with vLLM's router."""
    yield _nixl(201, ',"kv_connector_extra_config":{"backends":["LIBFABRIC"]}', "")
    yield _nixl(201, '"LIBFABRIC"', '"UCX"', nth=1)
    yield _nixl(202, "valueFrom: {fieldRef: {fieldPath: status.podIP}}", "value: 0.0.0.0")
    yield _nixl(202, "- name: VLLM_NIXL_SIDE_CHANNEL_HOST", "- name: VLLM_NIXL_SIDECHANNEL_HOST")
    yield _nixl(404, "--host=0.0.0.0", "--host=127.0.0.1")
    yield _nixl(404, "            - --prometheus-host=0.0.0.0\n", "")
    yield _nixl(
        405,
        "            - --vllm-pd-disaggregation\n",
        "            - --routing-logic=disaggregated_prefill\n",
    )
    yield _nixl(125, "NixlConnector", "LMCacheConnectorV1", nth=1)
    yield _nixl(215, "NixlConnector", "MooncakeConnector", nth=1)
    yield _nixl(302, "vpc.amazonaws.com/efa: 16", "vpc.amazonaws.com/efa: 32")
    yield _nixl(207, "--max-model-len=32768", "--max-model-len=16384")
    yield _nixl(207, "Qwen2.5-72B-Instruct", "Qwen2.5-72B")
    yield _nixl(
        401,
        '"kv_connector":"NixlConnector","kv_role":"kv_producer"',
        '"kv_connector":"LMCacheConnectorV1","kv_role":"kv_producer"',
    )
