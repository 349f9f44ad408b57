"""DPD-SRV-418: the values of the operator's endpoint have the form that the API server takes."""

import re
from collections.abc import Iterator
from typing import Final

from hyperpod_dpd.derive.operator_endpoint import endpoint_name, routing_service
from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.rules.serving.subjects import self_managed
from hyperpod_dpd.spec import Deployment

_LONGEST_NAME: Final = 63
"""Longest name of a Service, in characters (RFC 1035 label)."""

_ENDPOINT_NAME: Final = r"[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}"
_CERTIFICATE: Final = r"arn:aws:acm:[a-z0-9-]+:[0-9]{12}:certificate/[a-fA-F0-9-]+"
_DOMAIN: Final = r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*"
_ZONE: Final = r"Z[A-Z0-9]+"
_S3_URI: Final = r"s3://([^/]+)/?(.*)"

_FORMS: Final = {
    "certificate.arn": _CERTIFICATE,
    "certificate.domain_name": _DOMAIN,
    "certificate.hosted_zone_id": _ZONE,
    "certificate_output_s3_uri": _S3_URI,
}
"""Patterns of the custom resource by path below `serving.operator`."""


@deployment_rule(
    "DPD-SRV-418",
    severity=Severity.ERROR,
    title="names and addresses of the operator's endpoint have the form that its custom resource takes",
    sources=(
        "aws/sagemaker-hyperpod-cli charts/inference-operator (patterns of InferenceEndpointConfig v1)",
        "Kubernetes: a Service's name has at most 63 characters",
    ),
)
def endpoint_values_have_the_right_form(deployment: Deployment) -> Iterator[Problem]:
    """The API server refuses the resource, or the operator fails at an object whose name is too long."""
    if self_managed(deployment):
        return
    yield from _names(deployment)
    yield from _forms(deployment)


def _names(deployment: Deployment) -> Iterator[Problem]:
    name = endpoint_name(deployment)
    if not re.fullmatch(_ENDPOINT_NAME, name):
        yield Problem(
            path="serving.operator.endpoint_name",
            says="not the name of a SageMaker endpoint",
            given=f"`{name}`",
            limit=f"`{_ENDPOINT_NAME}`",
            fix="use letters, digits and hyphens",
        )
    service = routing_service(deployment)
    if len(service) > _LONGEST_NAME:
        longest = len(deployment.name) - (len(service) - _LONGEST_NAME)
        yield Problem(
            path="name",
            says="the operator could not create the Service of its router",
            given=f"`name: {deployment.name}`",
            computed=f"`{service}`, {len(service)} characters",
            limit=f"{_LONGEST_NAME} characters",
            fix=f"shorten the name to {longest} characters, or use `backend: self-managed`",
        )


def _forms(deployment: Deployment) -> Iterator[Problem]:
    for path, form in _FORMS.items():
        node = deployment.serving.operator
        value: object = node
        for part in path.split("."):
            value = getattr(value, part, None)
        if isinstance(value, str) and not re.fullmatch(form, value):
            yield Problem(
                path=f"serving.operator.{path}",
                says="the API server would refuse this value",
                given=f"`{path.rpartition('.')[2]}: {value}`",
                limit=f"`{form}`",
                fix="copy it from the service that gave it",
            )
