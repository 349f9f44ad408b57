"""From manifests to pods as the kubelet would start them: commands, environment, files, probes."""

from hyperpod_dpd.rehearsal.pods.plan import ContainerPlan, Mount, PodPlan, PreStop, Probe, Variable
from hyperpod_dpd.rehearsal.pods.read import ReadPods, read_pods
from hyperpod_dpd.rehearsal.pods.references import SECRET_VALUE

__all__ = [
    "SECRET_VALUE",
    "ContainerPlan",
    "Mount",
    "PodPlan",
    "PreStop",
    "Probe",
    "ReadPods",
    "Variable",
    "read_pods",
]
