"""DPD-LINT-310: the device plugin gives the devices."""

from collections.abc import Iterator

from hyperpod_dpd.lint.model import EFA, Fault, ManifestSet, fault
from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import manifest_rule


@manifest_rule(
    "DPD-LINT-310",
    severity=Severity.ERROR,
    title="`/dev/infiniband` is no hostPath",
    sources=("aws-samples/aws-do-eks PR 63",),
    facts=("E9",),
)
def devices_come_from_the_plugin(manifests: ManifestSet) -> Iterator[Fault]:
    """Beside the devices of the plugin it shows others of the node, and EFA breaks."""
    for pod in manifests.pods:
        volumes = pod.node.get("volumes")
        for volume in () if volumes is None else volumes.items:
            path = volume.get("hostPath", "path")
            if path is not None and (path.text or "").startswith("/dev/infiniband"):
                yield fault(
                    path,
                    says=f"{pod.owner.title} takes EFA devices past the device plugin",
                    given=f"`hostPath: {path.text}`",
                    fix=f"remove the volume: `{EFA}` brings the devices",
                )
