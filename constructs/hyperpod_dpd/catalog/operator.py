"""What AWS documents about disaggregated serving through the HyperPod inference operator."""

from typing import Final

from hyperpod_dpd.catalog.row import Source
from hyperpod_dpd.spec.value import record

_DPD_PAGE: Final = Source(
    text="SageMaker DG sagemaker-hyperpod-model-deployment-dpd, example and tuning", as_of="2026-11-30"
)


@record
class OperatorReference:
    """The values of AWS's own example, which are what AWS has run."""

    model_directory: str
    """Where the operator mounts the weights."""

    hub_home: str
    """Writable home of the Hugging Face libraries."""

    gpu_memory_utilization: float
    """Share of HBM for vLLM beside a PD buffer of 8 GiB."""

    cpus_per_gpu: int
    """CPUs that a colocated worker asks for, by GPU."""

    memory_gib_per_gpu: int
    """Memory in GiB that a colocated worker asks for, by GPU."""

    chunk_tokens: int
    """Tokens per LMCache chunk: LMCache's default, which nothing in the example changes."""

    instance_types: tuple[str, ...]
    """Instance types on which `pdSpec` is supported."""

    source: Source


REFERENCE: Final = OperatorReference(
    model_directory="/opt/ml/model",
    hub_home="/tmp/hf_home",  # noqa: S108 - AWS's value
    gpu_memory_utilization=0.75,
    cpus_per_gpu=12,
    memory_gib_per_gpu=128,
    chunk_tokens=256,
    instance_types=(
        "ml.p5.48xlarge",
        "ml.p5e.48xlarge",
        "ml.p5en.48xlarge",
        "ml.p6-b200.48xlarge",
        "ml.p6-b300.48xlarge",
    ),
    source=_DPD_PAGE,
)


@record
class OperatorFeature:
    """A field of the custom resource and the first version that knows it."""

    field: str
    """Path into `InferenceEndpointConfig.spec`, with the value where only that one counts."""

    operator: str
    """Version of the operator."""

    addon: str
    """Version of the EKS add-on `amazon-sagemaker-hyperpod-inference` that brings it."""

    source: Source


_NOTES: Final = Source(
    text="SageMaker DG sagemaker-hyperpod-inference-release-notes", as_of="2026-11-30", confirmed=True
)

PD_SPEC: Final = OperatorFeature(field="pdSpec", operator="3.2", addon="v1.3.0-eksbuild.1", source=_NOTES)
HUGGING_FACE: Final = OperatorFeature(
    field="modelSourceConfig.huggingFaceModel", operator="3.1", addon="v1.2.0-eksbuild.1", source=_NOTES
)
DNS: Final = OperatorFeature(field="dnsConfig", operator="3.1", addon="v1.2.0-eksbuild.1", source=_NOTES)
CACHE_OFF: Final = OperatorFeature(
    field="kvCacheSpec.enableL1Cache: false", operator="3.3", addon="v1.4.0-eksbuild.1", source=_NOTES
)

OPERATOR_FEATURES: Final = (PD_SPEC, HUGGING_FACE, DNS, CACHE_OFF)
"""Every field whose first version is public. The custom resource of operator 3.2, the floor, has all the others."""

INFERENCE_ADDON: Final = "amazon-sagemaker-hyperpod-inference"
"""Name of the EKS add-on that brings the operator, KEDA and the load balancer controller."""
