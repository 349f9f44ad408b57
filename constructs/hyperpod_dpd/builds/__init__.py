"""Work that the account does for a deployment: CodeBuild runs that CloudFormation waits for."""

from hyperpod_dpd.builds.project import BuildNetwork, BuildProject
from hyperpod_dpd.builds.runner import BuildRun, BuildRunner, BuildWait

__all__ = ["BuildNetwork", "BuildProject", "BuildRun", "BuildRunner", "BuildWait"]
