"""The router: when a request is disaggregated, and what it may cost."""

from typing import Annotated, Literal

import annotated_types as at

from hyperpod_dpd.spec.forms import CertificateArn, NamespaceName, SecretName, Url, WebAclArn
from hyperpod_dpd.spec.value import Fraction, NonEmptyStr, NonNegativeInt, PositiveFloat, PositiveInt, value


@value
class LoadBalancer:
    """The way in from outside the cluster: an Application Load Balancer with TLS."""

    scheme: Literal["internal", "internet-facing"] = "internal"
    """Who can reach it."""

    certificate_arn: CertificateArn | None = None
    """ACM certificate of the listener; absent: a binding that the platform fills."""

    waf_acl_arn: WebAclArn | None = None
    """AWS WAF web ACL."""

    inbound_cidrs: tuple[NonEmptyStr, ...] = ()
    """Addresses that may connect; empty: the VPC only."""


@value
class Routing:
    """The router's decision and limits."""

    threshold_tokens: NonNegativeInt | Literal["never"] = 4096
    """Prompts of at least this many tokens are disaggregated. 0: always. `never`: colocated behaviour."""

    estimator: Literal["characters", "tokens"] = "tokens"
    """`characters`: characters divided by 4. `tokens`: the real tokenizer near the threshold."""

    strategy: Literal["continue", "land"] = "continue"
    """How a hand-off is completed on the decoder (transfer `lmcache-pd`)."""

    affinity: Literal["none", "prefix", "session"] = "none"
    """Which decoder a request prefers."""

    policy: Literal["prefixaware", "kvaware", "session", "roundrobin"] = "prefixaware"
    """Routing strategy of the operator backend's own router."""

    notification_timeout_seconds: PositiveFloat = 15.0
    """How long the router waits for the KV cache to land before it falls back to a direct decode."""

    max_concurrent_requests: PositiveInt = 512
    """Requests in flight above which clients get 429."""

    max_queued_mib: PositiveInt = 256
    """Bytes of request bodies held, in MiB, above which clients get 429."""

    api_keys_secret: SecretName | None = None
    """Secrets Manager secret with one bearer key a line; absent: no authentication at the router."""

    load_balancer: LoadBalancer | None = None
    """Entrance from outside the cluster; absent: in-cluster Service only."""

    client_namespaces: tuple[NamespaceName, ...] = ()
    """Namespaces whose pods may call the router; the deployment's own system namespace always may."""

    cpu: Annotated[float, at.Ge(0.5)] = 2.0
    """CPUs of the router. It runs beside the controllers, on nodes without GPUs."""

    memory_gib: PositiveInt = 8
    """Memory of the router in GiB."""

    tracing_endpoint: Url | None = None
    """Base address of a collector's OTLP/HTTP receiver for traces of router and vLLM; absent: no tracing."""


@value
class Traffic:
    """What the endpoint is expected to serve; planner, thresholds and sizes read it."""

    input_tokens: PositiveInt = 4096
    """Typical prompt in tokens."""

    output_tokens: PositiveInt = 256
    """Typical answer in tokens."""

    concurrency: PositiveInt | None = None
    """Requests in flight (closed loop)."""

    requests_per_second: PositiveFloat | None = None
    """Arrival rate (open loop, Poisson)."""

    long_share: Fraction = 1.0
    """Share of requests with `input_tokens`; the rest has `short_input_tokens`."""

    short_input_tokens: PositiveInt = 512
    """Prompt of the short requests in tokens."""

    input_variation: Annotated[float, at.Ge(0), at.Le(10)] = 0.0
    """Coefficient of variation of the prompt length (log-normal); 0: every prompt has its typical length."""

    output_variation: Annotated[float, at.Ge(0), at.Le(10)] = 0.0
    """Coefficient of variation of the answer length (log-normal); 0: every answer has the typical length."""

    prefix_hit_share: Annotated[float, at.Ge(0), at.Lt(1)] = 0.0
    """Share of prompt tokens that a prefix cache already holds."""

    trace_file: NonEmptyStr | None = None
    """JSON lines with `arrival_seconds`, `input_tokens`, `output_tokens`, relative to this file; replaces the above."""


@value
class Slo:
    """What users were promised."""

    ttft_p95_seconds: PositiveFloat = 3.0
    """Time to first token, 95th percentile."""

    tpot_p95_seconds: PositiveFloat = 0.05
    """Time per output token, 95th percentile."""

    itl_max_seconds: PositiveFloat = 0.15
    """Longest gap between two tokens that the local prefill of another request may cause."""

    error_ratio: Annotated[float, at.Gt(0), at.Lt(1)] = 0.001
    """Share of requests that may fail."""


@value
class Price:
    """Price of an instance type that replaces the catalog's."""

    instance_type: NonEmptyStr
    """Instance type with its `ml.` prefix."""

    usd_per_hour: PositiveFloat
    """US dollars per instance and hour."""

    as_of: NonEmptyStr
    """Date of the price, ISO 8601. A price without a date is not a price."""

    source: NonEmptyStr
    """Where it comes from."""
