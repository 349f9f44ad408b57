"""DPD-EKS-019: the dependencies chart has one complete source."""

import re
from collections.abc import Iterator

from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.spec import Deployment


@deployment_rule(
    "DPD-EKS-019",
    severity=Severity.ERROR,
    title="the dependencies chart's source is complete: git needs nothing, s3 an object and its SHA-256",
    sources=("awslabs/awsome-distributed-ai #1205 (an installer that drifted)",),
    facts=("P7",),
)
def chart_source_is_complete(deployment: Deployment) -> Iterator[Problem]:
    """An archive without a digest is whatever lies in the bucket that day."""
    chart, path = deployment.cluster.dependencies_chart, "cluster.dependencies_chart"
    if chart.source == "git":
        for key, text in (("s3_uri", chart.s3_uri), ("sha256", chart.sha256)):
            if text is not None:
                yield Problem(
                    path=f"{path}.{key}",
                    says=f"`{key}` without `source: s3`",
                    given=f"`source: git` with `{key}: {text}`",
                    fix="set `source: s3` or remove it",
                )
        return
    if not re.fullmatch(r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]/.+", chart.s3_uri or ""):
        yield Problem(
            path=f"{path}.s3_uri",
            says="`source: s3` without an object",
            given=f"`s3_uri: {chart.s3_uri}`" if chart.s3_uri else "no `s3_uri`",
            limit="`s3://<bucket>/<key>`",
            fix="upload an archive of the chart's commit and name it",
        )
    if not re.fullmatch(r"[0-9a-f]{64}", chart.sha256 or ""):
        yield Problem(
            path=f"{path}.sha256",
            says="`source: s3` without a digest",
            given=f"`sha256: {chart.sha256}`" if chart.sha256 else "no `sha256`",
            limit="64 hexadecimal digits in lower case",
            fix="`sha256sum <archive>` prints it",
        )
