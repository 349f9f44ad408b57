"""What CloudFormation is told: the answer to a request of a custom resource, and the signal of a wait condition."""

import json
import logging
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any

from hyperpod_dpd.readiness.poller.verdict import Outcome, Verdict

MAX_REASON_CHARACTERS = 1000
"""CloudFormation refuses an answer above 4,096 bytes."""

SIGNAL_ID = "hyperpod-dpd"
"""One id for every signal of a wait: CloudFormation takes a second one with the same id for a repetition."""

_TIMEOUT_SECONDS = 30
_log = logging.getLogger(__name__)


def respond(
    request: Mapping[str, Any], *, data: Mapping[str, str] | None = None, failure: str | None = None
) -> None:
    """Answer a request of a custom resource: success with `data`, or failure with its reason.

    Raises:
        urllib.error.URLError: the address did not accept it; Lambda then runs the function again.
    """
    body = {key: request[key] for key in ("StackId", "RequestId", "LogicalResourceId")}
    _put(
        request["ResponseURL"],
        {
            **body,
            # another id would make CloudFormation delete the resource of before
            "PhysicalResourceId": request.get("PhysicalResourceId") or request["RequestId"],
            "Status": "SUCCESS" if failure is None else "FAILED",
            "Reason": (failure or "")[:MAX_REASON_CHARACTERS],
            "Data": dict(data or {}),
        },
    )


def signal(handle: str, verdict: Verdict) -> None:
    """Tell the wait condition behind `handle`. A handle that takes no more signals is left alone.

    Raises:
        urllib.error.URLError: the address was not reached or is broken; the next look signals again.
    """
    met = verdict.outcome is Outcome.MET
    body = {
        "Status": "SUCCESS" if met else "FAILURE",
        "Reason": (verdict.text or "everything is there")[:MAX_REASON_CHARACTERS],
        "UniqueId": SIGNAL_ID,
        "Data": verdict.text[:MAX_REASON_CHARACTERS],
    }
    try:
        _put(handle, body)
    except urllib.error.HTTPError as error:
        with error:
            # the stack is gone, or the handle's day is over: nobody is waiting
            if not 400 <= error.code < 500:
                raise
            _log.warning("the wait condition takes no signal: %s", error)


def _put(url: str, body: Mapping[str, Any]) -> None:
    request = urllib.request.Request(  # noqa: S310 -- CloudFormation's own https address
        url,
        data=json.dumps(body).encode(),
        method="PUT",
        # the address is signed for an empty content type
        headers={"Content-Type": ""},
    )
    with urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS):  # noqa: S310
        _log.info("told CloudFormation %s %s", body["Status"], body["Reason"])
