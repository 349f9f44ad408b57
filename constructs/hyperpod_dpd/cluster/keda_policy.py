"""What KEDA may read for its triggers."""

from aws_cdk import aws_iam as iam

from hyperpod_dpd.observability.metrics_workspace import MetricsWorkspace


def keda_statements(metrics: MetricsWorkspace | None) -> list[iam.PolicyStatement]:
    """Return the statements: CloudWatch's metrics, and those of the workspace where there is one."""
    cloudwatch = iam.PolicyStatement(
        sid="ReadMetrics",
        actions=[
            "cloudwatch:DescribeAlarms",
            "cloudwatch:GetMetricData",
            "cloudwatch:GetMetricStatistics",
            "cloudwatch:ListMetrics",
        ],
        # a metric has no ARN
        resources=["*"],
    )
    if metrics is None:
        return [cloudwatch]
    return [
        cloudwatch,
        iam.PolicyStatement(
            sid="QueryPrometheus",
            actions=["aps:GetLabels", "aps:GetMetricMetadata", "aps:GetSeries", "aps:QueryMetrics"],
            resources=[metrics.arn],
        ),
    ]
