"""DPD-K8S-011: no secret is written into the deployment file."""

from collections.abc import Iterator
from typing import Final

from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.rules.serving.subjects import environment
from hyperpod_dpd.spec import Deployment

_SECRET_WORDS: Final = frozenset({"TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL", "CREDENTIALS"})
_SECRET_ENDINGS: Final = ("API_KEY", "ACCESS_KEY", "ACCESS_KEY_ID", "PRIVATE_KEY")


@deployment_rule(
    "DPD-K8S-011",
    severity=Severity.ERROR,
    title="no variable in `environment` is a secret by its name",
    sources=(
        "CIS Kubernetes Benchmark 5.4.1 (secrets as files, not as environment variables)",
        "OWASP LLM02",
    ),
)
def environment_holds_no_secret(deployment: Deployment) -> Iterator[Problem]:
    """The file is in version control, and its values are in every rendered manifest and in the pod's description."""
    for path, name, _ in environment(deployment):
        if _SECRET_WORDS & set(name.split("_")) or name.endswith(_SECRET_ENDINGS):
            yield Problem(
                path=path,
                says=f"`{name}` looks like a secret",
                given=f"`{name}` with a value",  # the value itself must not get into a log
                fix="name a secret of Secrets Manager instead (`model.source.token_secret`, `routing.api_keys_secret`)",
            )
