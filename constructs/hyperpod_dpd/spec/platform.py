"""What a cluster offers to the deployments on it: controllers, scraping, policy enforcement."""

from typing import Annotated, Literal

import annotated_types as at

from hyperpod_dpd.spec.forms import (
    ApiGroup,
    EmailAddress,
    Image,
    LabelName,
    LabelValue,
    NamespaceName,
    TopicArn,
    Url,
)
from hyperpod_dpd.spec.value import NonEmptyStr, PositiveInt, value


@value
class InferenceOperator:
    """The HyperPod inference add-on, which bundles the load balancer controller and KEDA."""

    version: NonEmptyStr | None = None
    """EKS add-on version; by default the catalog's pin. Below the catalog's floor it does not know `pdSpec`."""

    tls_bucket: NonEmptyStr | None = None
    """Existing bucket for generated certificates; its name must start with `hyperpod-tls-`."""


@value
class Images:
    """Where the project's own images come from."""

    source: Literal["build", "given"] = "build"
    """`build`: CodeBuild in the account builds those that are not given. `given`: the digests below, nothing is built."""

    worker: Image | None = None
    """Image of the workers by digest."""

    router: Image | None = None
    """Image of the router by digest."""

    proof: Image | None = None
    """Image of the proof job by digest."""

    benchmark: Image | None = None
    """Image of the benchmark job by digest."""

    mirror_public_images: bool = False
    """Copy public images into the account's registry and use them from there (closed networks)."""


@value
class Alerts:
    """Where alerts go."""

    email_addresses: tuple[EmailAddress, ...] = ()
    """Addresses subscribed to the alert topic."""

    topic_arn: TopicArn | None = None
    """Existing SNS topic; absent: an encrypted one is created."""

    runbooks_url: Url | None = None
    """Address under which `docs/runbooks` is published; absent: alerts name the path in this repository."""


@value
class Schedule:
    """Hours in which the GPU groups are scaled to zero."""

    stop_cron: NonEmptyStr
    """EventBridge cron expression at which the groups go to zero."""

    start_cron: NonEmptyStr
    """EventBridge cron expression at which they come back."""

    time_zone: NonEmptyStr = "UTC"
    """IANA time zone of both."""

    warm_up_minutes: Annotated[int, at.Ge(1), at.Le(7 * 24 * 60)] = 180
    """Minutes after `start_cron` in which workers may be missing and nobody is told. AWS publishes no time for deep health
    checks: the default leaves them two hours, the start of the nodes and the loading of the weights half an hour each."""


@value
class Platform:
    """Components that exist once per cluster; several deployments may share the section."""

    inference_operator: InferenceOperator | None = InferenceOperator()
    """The HyperPod inference add-on; `null`: not installed, then KEDA and the ALB controller stand alone."""

    observability_addon: bool = True
    """The HyperPod observability add-on with EFA counters (needs a node of 4xlarge or more)."""

    scraping: Literal["collector", "prometheus-operator", "none"] = "collector"
    """Who reads metrics: an OpenTelemetry collector that writes to AMP, or a Prometheus operator."""

    scraping_namespace: NamespaceName = "hyperpod-dpd-observability"
    """Namespace in which the scraper's pods run; network policies let only them read metrics."""

    scraping_labels: dict[LabelName, LabelValue] | None = None
    """Further labels of every PodMonitor and PrometheusRule, by which a Prometheus that is there selects its own."""

    exporters: Literal["observability-addon", "manifests", "none"] = "observability-addon"
    """Where GPU and EFA metrics come from."""

    network_policies: Literal["enforced", "rendered-only"] = "enforced"
    """Whether the CNI enforces NetworkPolicies; sets its configuration."""

    external_secrets: bool = True
    """External Secrets operator, which brings tokens and keys from Secrets Manager."""

    autoscaling: bool | None = None
    """KEDA on the cluster; by default when the inference add-on brings it."""

    load_balancer_controller: bool | None = None
    """AWS Load Balancer Controller; by default when the inference add-on brings it."""

    grafana: Literal["none", "managed", "self-hosted"] = "none"
    """Dashboards: Amazon Managed Grafana (needs IAM Identity Center), ConfigMaps, or not at all."""

    images: Images = Images()
    """The project's own images."""

    alerts: Alerts = Alerts()
    """Transport of alerts."""

    nights_off: Schedule | None = None
    """Schedule that scales the GPU groups to zero."""

    monthly_budget_usd: PositiveInt | None = None
    """Budget alarm in US dollars a month."""

    custom_resources: tuple[ApiGroup, ...] = ()
    """Further API groups whose CRDs are on the cluster, for example `monitoring.coreos.com`."""

    log_retention_days: PositiveInt = 90
    """Days that logs are kept."""

    @property
    def is_measured(self) -> bool:
        """Whether metrics go to a workspace of Amazon Managed Service for Prometheus."""
        return self.scraping == "collector" or self.observability_addon

    @property
    def has_autoscaling(self) -> bool:
        """Whether KEDA's CRDs are on the cluster."""
        return self.inference_operator is not None if self.autoscaling is None else self.autoscaling

    @property
    def has_load_balancer_controller(self) -> bool:
        """Whether an ALB Ingress has a controller."""
        if self.load_balancer_controller is None:
            return self.inference_operator is not None
        return self.load_balancer_controller
