"""What this deployment has published already: whether it was deployed before, and what then belongs to it."""

from botocore.exceptions import ClientError

from hyperpod_dpd.derive.parameters import Parameter, parameter_name, parameter_prefix
from hyperpod_dpd.preflight.account import Account
from hyperpod_dpd.preflight.call import Call, arn
from hyperpod_dpd.preflight.failure import code_of
from hyperpod_dpd.spec import Deployment


def _parameters(deployment: Deployment) -> tuple[str, ...]:
    return (arn(deployment, "ssm", f"parameter{parameter_prefix(deployment)}/*"),)


PUBLISHED_CALL = Call(service="ssm", operation="GetParameter", on=_parameters)
"""What `published` calls."""


def published(deployment: Deployment, account: Account, parameter: Parameter) -> str | None:
    """Return the value that the deployment's stacks have written to `parameter`, None before they did."""
    try:
        answer = account.client("ssm").get_parameter(Name=parameter_name(deployment, parameter))
    except ClientError as error:
        if code_of(error) == "ParameterNotFound":
            return None
        raise
    return str(answer["Parameter"]["Value"])
