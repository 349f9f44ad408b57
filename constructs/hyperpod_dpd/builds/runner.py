"""Builds that run when their inputs change, and whose end CloudFormation waits for."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from constructs import Construct

from hyperpod_dpd.builds.project import BuildProject
from hyperpod_dpd.security.function import own_function
from hyperpod_dpd.security.logs import log_group
from hyperpod_dpd.spec.arguments import checked

_HANDLER = Path(__file__).parent / "handler"
_FUNCTION_TIMEOUT_MINUTES = 8
"""Longer than the handler tries to start a build."""
_LONGEST_ANSWER_MINUTES = 60
"""CloudFormation waits no longer for a custom resource (ServiceTimeout)."""
_LONGEST_WAIT_HOURS = 12
"""CloudFormation waits no longer for a wait condition (Timeout)."""
_MARGIN_MINUTES = 10
"""Longer than the build plus its queue, so that a build that hangs is reported by its own text."""


class BuildRunner(Construct):
    """The function that starts builds and answers CloudFormation, once per stack.

    Attributes:
        build_logs: log group of its builds.
        function: the function.
    """

    build_logs: logs.LogGroup
    function: lambda_.Function

    @checked
    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        log_key: kms.IKey,
        log_retention_days: int = 90,
        removal_policy: cdk.RemovalPolicy = cdk.RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE,
    ) -> None:
        """Create it.

        Args:
            scope: where the construct lives.
            construct_id: its id.
            log_key: key of the builds' and the function's logs.
            log_retention_days: days that these logs are kept, a value that CloudWatch Logs accepts.
            removal_policy: whether these logs outlive the stack.
        """
        super().__init__(scope, construct_id)
        self.build_logs = log_group(
            self, "BuildLogs", key=log_key, retention_days=log_retention_days, removal_policy=removal_policy
        )
        self.function, _ = own_function(
            self,
            folder=_HANDLER,
            description="Starts builds for CloudFormation and answers when they have ended",
            statements=[
                iam.PolicyStatement(actions=["logs:GetLogEvents"], resources=[self.build_logs.log_group_arn])
            ],
            timeout=cdk.Duration.minutes(_FUNCTION_TIMEOUT_MINUTES),
            log_key=log_key,
            log_retention_days=log_retention_days,
            removal_policy=removal_policy,
        )


class BuildRun(Construct):
    """One run of a project: started when its inputs change, answered when it ends.

    Attributes:
        resource: the custom resource; whatever needs the build's result depends on it, and reads exported variables
            with `get_att_string`.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        runner: BuildRunner,
        project: BuildProject,
        resource_type: str,
        physical_id: str,
        environment: Mapping[str, str],
        on_delete: Mapping[str, str] | None = None,
        exports: Sequence[str] = (),
        wait: "BuildWait | None" = None,
    ) -> None:
        """Create the run.

        Args:
            scope: where the construct lives.
            construct_id: its id.
            runner: the function.
            project: what runs.
            resource_type: type of the custom resource, `Custom::…`.
            physical_id: id of what the build makes, the same at every run.
            environment: variables of the build: its whole input, so that a roll-back runs the inputs of before.
            on_delete: variables of the build that undoes it; absent: deleting the resource runs nothing.
            exports: exported variables of the build: attributes of the resource, or the result of `wait`, which takes
                one.
            wait: signalled at the build's end in place of an answer; the resource then only starts the build.

        Raises:
            ValueError: the build may take longer than CloudFormation waits for an answer, and there is no `wait`; or
                there is one, and the build exports more than it takes.
        """
        super().__init__(scope, construct_id)
        minutes = project.timeout_minutes + project.queue_minutes + _MARGIN_MINUTES
        if wait is None and minutes > _LONGEST_ANSWER_MINUTES:
            raise ValueError(
                f"build `{self.node.path}` may take longer than CloudFormation waits: given "
                f"{project.timeout_minutes} minutes, with queue and margin {minutes}, limit "
                f"{_LONGEST_ANSWER_MINUTES}. help: give it a `BuildWait`"
            )
        if wait is not None and len(exports) > 1:
            raise ValueError(
                f"a wait takes one result: given {', '.join(f'`{name}`' for name in exports)} of build "
                f"`{self.node.path}`. help: export one variable"
            )
        ended = self._tell(runner, project)
        properties: dict[str, Any] = {
            "Project": project.project.ref,
            "Source": project.location,
            "PhysicalId": physical_id,
            "Environment": dict(environment),
        }
        if on_delete is not None:
            properties["OnDelete"] = dict(on_delete)
        if exports:
            properties["Exports"] = list(exports)
        if wait is not None:
            properties["WaitHandle"] = wait.handle_for(properties, needs=self, minutes=minutes)
        self.resource = cdk.CustomResource(
            self,
            "Resource",
            resource_type=resource_type,
            service_token=runner.function.function_arn,
            service_timeout=cdk.Duration.minutes(_MARGIN_MINUTES if wait else minutes),
            properties=properties,
        )
        # without the rule nobody would answer
        self.resource.node.add_dependency(ended, runner.function)

    def _tell(self, runner: BuildRunner, project: BuildProject) -> events.Rule:
        """Let the function run builds of `project`; return the rule that tells it of their ends."""
        runner.function.add_to_role_policy(
            iam.PolicyStatement(
                actions=[
                    "codebuild:BatchGetBuilds",
                    "codebuild:ListBuildsForProject",
                    "codebuild:StartBuild",
                    "codebuild:StopBuild",
                ],
                resources=[project.project.attr_arn],
            )
        )
        return events.Rule(
            self,
            "Ended",
            description=f"Ended: {project.project.description}",
            event_pattern=events.EventPattern(
                source=["aws.codebuild"],
                detail_type=["CodeBuild Build State Change"],
                detail={
                    "project-name": [project.project.ref],
                    "build-status": ["SUCCEEDED", "FAILED", "FAULT", "STOPPED", "TIMED_OUT"],
                },
            ),
            targets=[targets.LambdaFunction(runner.function)],
        )


class BuildWait(Construct):
    """Waits up to twelve hours for the end of a build, and fails with the build's own words.

    A condition can be met once only: handle and condition get new ids when the build's inputs change.

    Attributes:
        condition: what to depend on; set by the `BuildRun` that signals it.
    """

    condition: cdk.CfnWaitCondition

    @property
    def result(self) -> str:
        """What the build exports, as a token: the only text in the condition's data, `{"<build id>":"<text>"}`."""
        return cdk.Fn.select(3, cdk.Fn.split('"', self.condition.attr_data.to_string()))

    def handle_for(self, inputs: Mapping[str, Any], *, needs: BuildRun, minutes: int) -> str:
        """Make handle and condition for a build with these inputs; return the handle's address.

        Raises:
            ValueError: `minutes` is more than CloudFormation waits.
        """
        if minutes > _LONGEST_WAIT_HOURS * 60:
            raise ValueError(
                f"build `{needs.node.path}` may take longer than CloudFormation waits: with queue and margin "
                f"{minutes} minutes, limit {_LONGEST_WAIT_HOURS * 60}. help: shorten `timeout_minutes`"
            )
        text = json.dumps(cdk.Stack.of(self).resolve(inputs), sort_keys=True)
        digest = hashlib.sha256(text.encode()).hexdigest()[:12]
        handle = cdk.CfnWaitConditionHandle(self, f"Handle{digest}")
        self.condition = cdk.CfnWaitCondition(
            self, f"Condition{digest}", handle=handle.ref, timeout=str(minutes * 60), count=1
        )
        self.condition.node.add_dependency(needs)
        return handle.ref
