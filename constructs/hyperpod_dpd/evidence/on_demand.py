"""Running the deployed proof once more: the Job on the cluster is its own template, with every binding filled."""

import json
import re
import secrets
import shutil
import subprocess
import time
from collections.abc import Callable
from datetime import datetime
from typing import Any, Final

from hyperpod_dpd.serving import names
from hyperpod_dpd.serving.names import Component
from hyperpod_dpd.spec import Deployment

CALL_SECONDS: Final = 30
POLL_SECONDS: Final = 2.0
KEPT_SECONDS: Final = 24 * 3600
"""Time for which a Job that somebody started by hand stays on the cluster after its end."""

_MADE_BY_A_RELEASE: Final = re.compile(r"proof-[0-9a-f]{8}")
_OF_THE_OLD_JOB: Final = ("controller-uid", "job-name")


class CannotProveError(RuntimeError):
    """There is no verdict; the text says why."""


class Kubectl:
    """This machine's kubectl."""

    def __init__(self, *, context: str | None) -> None:
        self._context = ("--context", context) if context else ()

    def __call__(self, *arguments: str, given: str | None = None) -> str:
        """Return what `kubectl ARGUMENTS` prints, with `given` on its standard input.

        Raises:
            CannotProveError: it is not installed, fails or takes too long.
        """
        program = shutil.which("kubectl")
        if program is None:
            raise CannotProveError(
                "`kubectl` is not installed. help: install it, or prove from here with `--url`, `--prefiller` and "
                "`--decoder`"
            )
        try:
            done = subprocess.run(  # noqa: S603 - a list, no shell
                [program, *self._context, *arguments],
                input=given,
                capture_output=True,
                text=True,
                check=False,
                timeout=CALL_SECONDS,
            )
        except subprocess.TimeoutExpired:
            raise CannotProveError(f"kubectl gave no answer within {CALL_SECONDS} seconds") from None
        except OSError as error:
            raise CannotProveError(f"kubectl cannot be run: {error}") from None
        if done.returncode:
            lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
            raise CannotProveError(f"kubectl: {lines[-1].removeprefix('error: ')}")
        return done.stdout


def prove_again(
    deployment: Deployment,
    kubectl: Callable[..., str],
    *,
    say: Callable[[str], None],
    pause: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> dict[str, Any]:
    """Run the deployed proof once more and return its result.

    Raises:
        CannotProveError: there is no proof on the cluster, or it ended without a verdict.
    """
    namespace = names.system_namespace(deployment)
    made = _copy(_newest(deployment, kubectl, namespace))
    name = made["metadata"]["name"]
    kubectl("create", "--namespace", namespace, "--filename", "-", given=json.dumps(made))
    say(f"job `{name}` in `{namespace}`")
    limit = clock() + made["spec"]["activeDeadlineSeconds"] + CALL_SECONDS
    while not _has_ended(_json(kubectl("get", "job", name, "--namespace", namespace, "--output", "json"))):
        if clock() > limit:
            raise CannotProveError(f"job `{name}` has not ended in time. {_help(namespace, name)}")
        pause(POLL_SECONDS)
    log = kubectl("logs", f"job/{name}", "--namespace", namespace, "--tail", "-1")
    for line in reversed(log.splitlines()):
        if line.startswith('{"verdict"'):
            result: dict[str, Any] = _json(line)
            return result
    said = " ".join(log.split())[-300:] or "nothing"
    raise CannotProveError(f"job `{name}` ended without a verdict and said: {said}. {_help(namespace, name)}")


def _newest(deployment: Deployment, kubectl: Callable[..., str], namespace: str) -> dict[str, Any]:
    selector = names.selector(deployment, Component.PROOF)
    labels = ",".join(f"{label}={value}" for label, value in selector.items())
    listed = _json(kubectl("get", "jobs", "--namespace", namespace, "--selector", labels, "--output", "json"))
    jobs = [job for job in listed["items"] if _MADE_BY_A_RELEASE.fullmatch(job["metadata"]["name"])]
    if not jobs:
        raise CannotProveError(
            f"no release has left a proof in `{namespace}`. help: deploy the serving stack, apply "
            f"`manifests/rendered/{deployment.name}/proof`, or choose the cluster with `--context`"
        )

    def age(job: dict[str, Any]) -> datetime:
        return datetime.fromisoformat(job["metadata"]["creationTimestamp"])

    newest: dict[str, Any] = max(jobs, key=age)
    return newest


def _copy(job: dict[str, Any]) -> dict[str, Any]:
    """Return a Job like `job` with a name of its own, without what the API server has added."""
    template = job["spec"]["template"]
    labels = {
        label: value
        for label, value in template["metadata"].get("labels", {}).items()
        if label.rpartition("/")[2] not in _OF_THE_OLD_JOB
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": f"{job['metadata']['name']}-{secrets.token_hex(3)}",
            "namespace": job["metadata"]["namespace"],
            "labels": labels,
        },
        "spec": {
            "backoffLimit": job["spec"]["backoffLimit"],
            "activeDeadlineSeconds": job["spec"]["activeDeadlineSeconds"],
            "ttlSecondsAfterFinished": KEPT_SECONDS,
            "template": {"metadata": {"labels": labels}, "spec": template["spec"]},
        },
    }


def _has_ended(job: dict[str, Any]) -> bool:
    return any(
        condition["type"] in ("Complete", "Failed") and condition["status"] == "True"
        for condition in job.get("status", {}).get("conditions", ())
    )


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        raise CannotProveError(f"kubectl printed something else than JSON: {text[:100]!r}") from None


def _help(namespace: str, name: str) -> str:
    return f"help: `kubectl describe pod --namespace {namespace} --selector job-name={name}`"
