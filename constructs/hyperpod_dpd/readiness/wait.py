"""A wait: what must be so, for how long at most, and who depends on it."""

import hashlib
import json
from collections.abc import Sequence
from typing import Any, Final

import aws_cdk as cdk
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_iam as iam
from constructs import Construct, IDependable

from hyperpod_dpd.readiness.readiness import Readiness
from hyperpod_dpd.readiness.requirements import Requirement
from hyperpod_dpd.spec.arguments import checked

LONGEST: Final = cdk.Duration.hours(12)
"""Limit of CloudFormation's wait conditions."""

SHORTEST: Final = cdk.Duration.minutes(10)
"""The poller gives up some minutes before CloudFormation does, so that its words are heard; a few looks come before."""

_DIGITS: Final = 12


class Wait(Construct):
    """Holds CloudFormation up until every requirement is met, and fails with the requirement's own words.

    A wait condition is used up by its first signal and cannot be changed. All parts of a wait therefore carry a digest
    of what is waited for in their ids: a change makes a new wait, no change makes none.

    Attributes:
        ready: what depends on the wait's end depends on this.
    """

    ready: IDependable

    @checked
    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        readiness: Readiness,
        requirements: Sequence[Requirement],
        within: cdk.Duration,
        revision: str = "",
        needs: Sequence[IDependable] = (),
    ) -> None:
        """Wait.

        Args:
            scope: where the construct lives, in the stack of `readiness` or in one that is deployed after it.
            construct_id: its id.
            readiness: the poller.
            requirements: what must be so.
            within: after this time the wait fails; at least 10 minutes, at most 12 hours.
            revision: digest of what is installed, where the requirements alone do not tell one version from the next.
            needs: what is created before the wait begins.

        Raises:
            ValueError: nothing to wait for, or a time that CloudFormation does not wait.
        """
        super().__init__(scope, construct_id)
        if not requirements:
            raise ValueError(f"wait `{self.node.path}` waits for nothing. help: leave it out")
        if not SHORTEST.to_seconds() <= within.to_seconds() <= LONGEST.to_seconds():
            raise ValueError(
                f"wait `{self.node.path}` cannot last {within.to_human_string()}: it looks for "
                f"{SHORTEST.to_human_string()} at least, and CloudFormation waits for {LONGEST.to_human_string()} at most. "
                "help: choose a time in between"
            )
        asked = [requirement.as_event() for requirement in requirements]
        # below a construct with the digest, so that the ids of all parts change together
        parts = Construct(self, self._digest(asked, within, revision))
        started = cdk.CustomResource(
            parts,
            "Started",
            resource_type="Custom::DpdWait",
            service_token=readiness.function.function_arn,
        )
        started.node.add_dependency(readiness.ready, *needs)
        handle = cdk.CfnWaitConditionHandle(parts, "Handle")
        rule = events.Rule(
            parts,
            "EveryMinute",
            description=f"Looks whether what {self.node.path} waits for is there",
            schedule=events.Schedule.rate(cdk.Duration.minutes(1)),
            targets=[
                targets.LambdaFunction(
                    readiness.function,
                    event=events.RuleTargetInput.from_object(
                        {
                            "wait": self.node.path,
                            "handle": handle.ref,
                            "started": started.get_att_string("Started"),
                            "within_seconds": within.to_seconds(),
                            "rule": events.EventField.from_path("$.resources[0]"),
                            "requirements": asked,
                        }
                    ),
                    # the next look comes anyway
                    retry_attempts=0,
                )
            ],
        )
        stop = iam.Policy(
            parts,
            "Stop",
            statements=[iam.PolicyStatement(actions=["events:DisableRule"], resources=[rule.rule_arn])],
            roles=[readiness.role],
        )
        condition = cdk.CfnWaitCondition(
            parts, "Condition", handle=handle.ref, count=1, timeout=str(int(within.to_seconds()))
        )
        condition.node.add_dependency(rule, stop)
        self.ready = condition

    def _digest(self, asked: list[dict[str, Any]], within: cdk.Duration, revision: str) -> str:
        content = cdk.Stack.of(self).resolve(
            {"asked": asked, "revision": revision, "within": within.to_seconds()}
        )
        text = json.dumps(content, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]
