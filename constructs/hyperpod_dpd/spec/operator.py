"""What only the inference operator's custom resource can be told: endpoint, TLS, caches, topology, metrics."""

from typing import Annotated, Literal

import annotated_types as at

from hyperpod_dpd.spec.forms import (
    AbsolutePath,
    CacheUrl,
    EnvironmentName,
    RelativePath,
    ServedName,
    ZoneName,
)
from hyperpod_dpd.spec.value import NonEmptyStr, NonNegativeInt, PositiveInt, value


@value
class EndpointCertificate:
    """A certificate of ACM for the endpoint; absent, the operator makes a self-signed one."""

    arn: NonEmptyStr | None = None
    """ARN of the certificate, in the endpoint's region; absent: a binding that the platform fills."""

    domain_name: NonEmptyStr
    """Name in the certificate under which clients reach the endpoint: lower case, no wildcard."""

    hosted_zone_id: NonEmptyStr | None = None
    """Route 53 zone in which the operator creates the record of `domain_name`; absent: you create it."""


@value
class SecondCache:
    """KV cache beyond host memory (L2)."""

    backend: Literal["redis", "tieredstorage"]
    """`tieredstorage`: HyperPod's memory of other nodes. `redis`: a server of yours."""

    url: CacheUrl | None = None
    """Address of the redis server; `tieredstorage` needs none."""


@value
class Topology:
    """Where the pods of both roles may run, beyond their instance groups."""

    same_zone: bool = True
    """Both roles in one zone. EFA does not leave it, so anything else is refused."""

    zone_name: ZoneName | None = None
    """Name of the zone in this account, such as `us-east-1a`; absent: the zone of the instance groups."""

    placement_group: NonEmptyStr | None = None
    """Existing placement group of the nodes."""


@value
class OperatorEndpoint:
    """The endpoint that the inference operator builds; only `backend: operator` reads it."""

    endpoint_name: NonEmptyStr | None = None
    """Name of the SageMaker endpoint; by default the deployment's."""

    registers_endpoint: bool = True
    """Whether a SageMaker endpoint is created beside the load balancer."""

    model_version: ServedName | None = None
    """Version with which the model is registered."""

    invocation_path: RelativePath = "v1/chat/completions"
    """Path of the engine to which invocations of the SageMaker endpoint go."""

    certificate: EndpointCertificate | None = None
    """Certificate of the load balancer; absent: self-signed by the operator."""

    certificate_output_s3_uri: NonEmptyStr | None = None
    """Where the operator puts its self-signed certificate; absent: the add-on's own bucket."""

    load_balancing: Literal["least_outstanding_requests", "round_robin"] | None = None
    """Algorithm of the load balancer's target group; absent: the operator's default, the first."""

    max_concurrent_requests_per_pod: PositiveInt | None = None
    """Requests in a pod above which its proxy queues or answers 429; absent: no limit."""

    max_queued_requests_per_pod: NonNegativeInt | None = None
    """Requests that wait in the proxy of a pod; absent: none."""

    metrics: bool = True
    """Whether the operator scrapes the pods."""

    scrape_interval_seconds: Annotated[int, at.Ge(5), at.Le(300)] | None = None
    """Seconds between two scrapes; absent: the operator's default of 15."""

    second_cache: SecondCache | None = None
    """KV cache beyond host memory; absent: none."""

    cache_config_file: AbsolutePath | None = None
    """Cache configuration file inside the image, which replaces every other setting of the caches."""

    routes_intelligently: bool = True
    """Whether the operator's router chooses workers by `routing.policy`; it cannot be changed later."""

    topology: Topology = Topology()
    """Placement of the pods."""

    environment: dict[EnvironmentName, str] | None = None
    """Further environment variables of all workers; there are none per role."""

    prefetches_weights: bool = False
    """Whether weights are read into host memory before the engine starts."""

    deploy_timeout_seconds: PositiveInt | None = None
    """Seconds after which an incomplete deployment fails; absent: the operator's default of 3600."""
