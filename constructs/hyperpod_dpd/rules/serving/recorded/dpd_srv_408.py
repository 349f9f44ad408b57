"""DPD-SRV-408: Dynamo's conditional disaggregation."""

from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import Subject, recorded_rule

recorded_rule(
    "DPD-SRV-408",
    subject=Subject.NOT_EXPRESSIBLE,
    severity=Severity.ERROR,
    title="Dynamo's conditional disaggregation has its router mode, KV events and decode flag, and no "
    "LMCacheConnectorV1",
    why="Without them it never disaggregates. This project renders no foreign router.",
    sources=("ai-dynamo/dynamo PR 11723",),
    facts=("R7",),
)
