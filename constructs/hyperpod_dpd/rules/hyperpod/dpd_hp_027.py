"""DPD-HP-027: keys of volumes need continuous provisioning."""

from collections.abc import Iterator

from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.spec import Deployment


@deployment_rule(
    "DPD-HP-027",
    severity=Severity.ERROR,
    title="`volumes_kms_key_arn` is given with continuous provisioning only",
    sources=("SageMaker DG smcluster-cmk (customer managed keys: continuous node provisioning only)",),
)
def volume_keys_need_continuous_provisioning(deployment: Deployment) -> Iterator[Problem]:
    """HyperPod refuses a customer's key in the other mode, after network and control plane are made."""
    if deployment.hyperpod.continuous_provisioning:
        return
    for index, group in enumerate(deployment.hyperpod.instance_groups):
        if group.volumes_kms_key_arn is not None:
            yield Problem(
                path=f"hyperpod.instance_groups[{index}].volumes_kms_key_arn",
                says=f"group `{group.name}` has a key without continuous provisioning",
                given="`volumes_kms_key_arn` with `continuous_provisioning: false`",
                fix="remove the key, or set `hyperpod.continuous_provisioning: true`",
            )
