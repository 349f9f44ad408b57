"""Rendered manifests with one thing changed, planned and run."""

import shutil
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from hyperpod_dpd.derive import resolve
from hyperpod_dpd.rehearsal.cluster import LocalCluster
from hyperpod_dpd.rehearsal.plan import RehearsalPlan, plan_rehearsal
from hyperpod_dpd.spec import Deployment
from hyperpod_dpd.spec.load import load
from tests.support.deployments import ROOT

LIMIT_SECONDS = 300
"""Against hanging; no test is about times: the machine may be busy, and `make rehearse` looks at them."""

RENDERED = ROOT / "manifests/rendered/llama-3-3-70b-p5"


@cache
def deployment() -> Deployment:
    """Return the default deployment: a prefiller and a decoder on a ml.p5.48xlarge each."""
    return load(ROOT / "deployments/llama-3.3-70b-p5.yaml").deployment


_LAST_TIMEOUT = "            - --shutdown-grace-seconds=600\n"

_PATIENCE = "".join(
    f"            - --{name}-seconds=60\n" for name in ("connect-timeout", "health-timeout", "buffer-wait")
)
"""For a router whose workers may stand still for a moment, as this machine does: what has ended refuses at once."""

_READINESS = "            timeoutSeconds: 2\n            failureThreshold: 2\n"
_PATIENT = [
    (_LAST_TIMEOUT, _LAST_TIMEOUT + _PATIENCE),
    # and so may the router
    (_READINESS, _READINESS.replace("timeoutSeconds: 2", "timeoutSeconds: 60")),
]


def copied(
    folder: Path, edits: Mapping[str, Sequence[tuple[str, str]]], profile: str = "self-managed"
) -> Path:
    """Copy a rendered profile into `folder` with texts of its files replaced and a patient router."""
    target = folder / profile
    shutil.copytree(RENDERED / profile, target)
    for name, replacements in (*edits.items(), ("router.yaml", _PATIENT)):
        text = (target / name).read_text(encoding="utf-8")
        for old, new in replacements:
            assert old in text, f"{name} holds no {old!r}"
            text = text.replace(old, new)
        (target / name).write_text(text, encoding="utf-8")
    return target


def planned(
    folder: Path, edits: Mapping[str, Sequence[tuple[str, str]]], profile: str = "self-managed"
) -> RehearsalPlan:
    """Return the plan of a rendered profile with texts replaced."""
    return plan_rehearsal([copied(folder, edits, profile)], deployment())


def local_cluster(plan: RehearsalPlan, folder: Path) -> LocalCluster:
    """Return a cluster of simulated engines whose files go into the new folder `folder`."""
    return LocalCluster(plan, folder=folder, geometry=resolve(deployment()).geometry)
