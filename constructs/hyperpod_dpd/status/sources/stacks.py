"""Stacks of the deployment, found by their tag."""

from collections.abc import Iterator
from typing import Any

from hyperpod_dpd.spec import Deployment
from hyperpod_dpd.status.observation import Answer, Row, State, Unseen
from hyperpod_dpd.status.outside import Outside

DEPLOYMENT_TAG = "hyperpod-dpd:deployment"
"""Tag that every stack of a deployment carries."""


def stacks(deployment: Deployment, outside: Outside) -> Iterator[Answer]:
    """Yield a row per stack."""
    found = tagged_stacks(deployment, outside)
    for stack in found:
        name, word = stack["StackName"], stack["StackStatus"]
        yield Row(
            kind="stack", name=name, state=_state(word), word=word, detail=_detail(stack, deployment.region)
        )
    if found:
        return
    if deployment.cluster.existing is not None:
        yield Unseen(what="stacks", why="the cluster belongs to another deployment", skipped=True)
    else:
        yield Row(
            kind="stack",
            name=deployment.name,
            state=State.ILL,
            word="absent",
            detail=f"no stack in {deployment.region} carries `{DEPLOYMENT_TAG}: {deployment.name}`; not deployed yet?",
        )


def tagged_stacks(deployment: Deployment, outside: Outside) -> list[dict[str, Any]]:
    """Return the descriptions of the deployment's stacks, the oldest first."""
    tag = {"Key": DEPLOYMENT_TAG, "Value": deployment.name}
    pages = outside.account.client("cloudformation").get_paginator("describe_stacks").paginate()
    found = [stack for page in pages for stack in page["Stacks"] if tag in stack.get("Tags", ())]
    return sorted(found, key=lambda stack: (stack["CreationTime"], stack["StackName"]))


def _state(word: str) -> State:
    if word.endswith("_IN_PROGRESS"):
        return State.BUSY
    # after a rollback the stack is complete, but it is not what was deployed last
    fine = word.endswith("_COMPLETE") and "ROLLBACK" not in word and not word.startswith("DELETE")
    return State.WELL if fine else State.ILL


def _detail(stack: dict[str, Any], region: str) -> str:
    """Return CloudFormation's reason, and what to do where a stack can only be deleted and is protected against it."""
    reason: str = stack.get("StackStatusReason", "")
    if stack["StackStatus"] != "ROLLBACK_COMPLETE":
        return reason
    advice = (
        "its first creation failed; once the cause is mended: `aws cloudformation update-termination-protection "
        f"--region {region} --no-enable-termination-protection --stack-name {stack['StackName']}`, and deploy again"
    )
    return f"{reason}; {advice}" if reason else advice
