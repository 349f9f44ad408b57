"""The permissions that a preflight takes: nothing that its checks do not call."""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from hyperpod_dpd.preflight.check import Check
from hyperpod_dpd.spec import Deployment


def policy(deployment: Deployment, checks: Iterable[Check]) -> dict[str, Any]:
    """Return the IAM policy document with which every one of `checks` that applies can look at everything."""
    resources: dict[str, set[str]] = defaultdict(set)
    for check in checks:
        if check.applies(deployment):
            for call in check.calls:
                if call.action is not None:
                    resources[call.action] |= set(call.on(deployment))
    statements: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for action, on in sorted(resources.items()):
        if on:
            statements[("*",) if "*" in on else tuple(sorted(on))].append(action)
    return {
        "Version": "2012-10-17",
        "Statement": [
            {"Effect": "Allow", "Action": actions, "Resource": list(on) if len(on) > 1 else on[0]}
            for on, actions in sorted(statements.items())
        ],
    }
