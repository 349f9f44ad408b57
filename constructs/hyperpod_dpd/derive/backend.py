"""One specification, two back ends."""

import dataclasses
from typing import Literal

from hyperpod_dpd.spec import Deployment


def on_backend(deployment: Deployment, backend: Literal["operator", "self-managed"]) -> Deployment:
    """Return `deployment` as the other word in `serving.backend` would make it.

    Acknowledgements stay behind: a warning of one backend may not exist on the other, and an acknowledgement without
    its warning is an error.
    """
    if deployment.serving.backend == backend:
        return deployment
    return dataclasses.replace(
        deployment, serving=dataclasses.replace(deployment.serving, backend=backend), acknowledge=()
    )
