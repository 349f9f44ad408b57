"""One accepted finding of cdk-nag's AwsSolutions pack."""

from dataclasses import dataclass
from typing import Literal

import aws_cdk as cdk

from hyperpod_dpd.catalog.cdk import BOOTSTRAP
from hyperpod_dpd.derive.model_store import import_origin
from hyperpod_dpd.serving.model_source import key_prefix
from hyperpod_dpd.spec import Deployment, FolderOrigin, S3Source

Part = Literal["network", "cluster", "hyperpod", "platform", "serving"]

_PACK = "AwsSolutions"


@dataclass(frozen=True, slots=True, kw_only=True)
class NagAcknowledgement:
    """One accepted finding."""

    part: Part
    """Stack in which it is."""
    path: str
    """Construct path inside the stack."""
    finding: str
    """Finding as cdk-nag names it. What differs between deployments is written `<region>`, `<account>`, `<eks>`
    and `<hyperpod>` (names of the clusters), `<qualifier>` (of the CDK bootstrap), `<models>` (ARN of the model's bucket), `<model>` (folder of the model in
    it), `<origin>` (ARN of the folder that it is imported from) and `<deployment>`."""
    reason: str
    optional: bool = False
    """Whether some deployments do not have the construct."""

    def id(self, stack: cdk.Stack, deployment: Deployment) -> str:
        """Return the id by which the pack knows the finding in `stack` of `deployment`."""
        finding, existing = self.finding, deployment.cluster.existing
        for placeholder, value in {
            "account": "<AWS::AccountId>" if cdk.Token.is_unresolved(stack.account) else stack.account,
            "region": stack.region,
            "eks": existing.eks_name if existing else deployment.name,
            "hyperpod": existing.hyperpod_name if existing else deployment.cluster_name,
            "qualifier": BOOTSTRAP.of(deployment).qualifier,
            "models": _models(deployment),
            "model": key_prefix(deployment),
            "origin": _origin(deployment),
            "deployment": deployment.name,
        }.items():
            finding = finding.replace(f"<{placeholder}>", value)
        return f"{_PACK}::{_PACK}-{finding}"


def _models(deployment: Deployment) -> str:
    source = deployment.model.source
    if isinstance(source, S3Source) and source.bucket is not None:
        return f"arn:aws:s3:::{source.bucket}"
    return "<ModelStoreModelsBucket10870FC0.Arn>"


def _origin(deployment: Deployment) -> str:
    origin = import_origin(deployment)
    if not isinstance(origin, FolderOrigin):
        return "<origin>"
    return f"arn:aws:s3:::{origin.uri.removeprefix('s3://').strip('/')}"
