"""DPD-SRV-211: nothing restricts UCX to one host."""

from collections.abc import Iterator

from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.rules.serving.subjects import environment
from hyperpod_dpd.spec import Deployment


@deployment_rule(
    "DPD-SRV-211",
    severity=Severity.ERROR,
    title="no `UCX_*` variable is set",
    sources=("LMCache examples (`UCX_TLS=cuda_ipc,…` is for one host)", "vllm-project/vllm issue 22532"),
    facts=("V11",),
)
def ucx_is_left_alone(deployment: Deployment) -> Iterator[Problem]:
    """`UCX_TLS` of the single-host examples leaves no transport between hosts, and LIBFABRIC does not read it."""
    for path, name, value in environment(deployment):
        if name.startswith("UCX_"):
            yield Problem(
                path=path,
                says="the KV cache is not carried by UCX here",
                given=f"`{name}: {value}`",
                fix="remove it",
            )
