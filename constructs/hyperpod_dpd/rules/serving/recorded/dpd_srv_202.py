"""DPD-SRV-202: NixlConnector advertises the pod's address."""

from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import Subject, recorded_rule

recorded_rule(
    "DPD-SRV-202",
    subject=Subject.DEFAULT,
    severity=Severity.ERROR,
    title="`VLLM_NIXL_SIDE_CHANNEL_HOST` is the pod's address",
    why="It is advertised to the other side: with `localhost` or `0.0.0.0` a peer connects to itself.",
    sources=("vllm-project/vllm issue 27083", "volcano-sh/kthena PR 1781 and issue 503"),
    facts=("V2",),
)
