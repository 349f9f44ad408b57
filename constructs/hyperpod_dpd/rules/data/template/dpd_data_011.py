"""DPD-DATA-011: image repositories are scanned and their tags do not move."""

from collections.abc import Iterator

from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import template_rule
from hyperpod_dpd.rules.template import Template, at, properties, resources


@template_rule(
    "DPD-DATA-011",
    severity=Severity.ERROR,
    title="image repositories have immutable tags and are scanned on push",
    sources=("checkov CKV_AWS_51, 136 and 163", "cdk-nag AwsSolutions-ECR1"),
)
def repositories_are_pinned(template: Template) -> Iterator[Problem]:
    """A tag that moves gives prefill and decode two builds of one name, and every KV lookup misses."""
    for logical_id, repository in resources(template, "AWS::ECR::Repository"):
        given = properties(repository)
        if not str(given.get("ImageTagMutability", "")).startswith("IMMUTABLE"):
            yield Problem(
                path=at(logical_id, "Properties.ImageTagMutability"),
                says=f"tags of repository `{logical_id}` can move",
                given=f"`ImageTagMutability: {given.get('ImageTagMutability', 'MUTABLE')}`",
                fix="set `IMMUTABLE`",
            )
        if (given.get("ImageScanningConfiguration") or {}).get("ScanOnPush") is not True:
            yield Problem(
                path=at(logical_id, "Properties.ImageScanningConfiguration"),
                says=f"images of repository `{logical_id}` are not scanned",
                given="no `ScanOnPush: true`",
                fix="set it",
            )
