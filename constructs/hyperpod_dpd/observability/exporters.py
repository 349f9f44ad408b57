"""Exporters of GPU and EFA counters, one pod each per GPU node, for clusters without the observability add-on's own."""

from collections.abc import Mapping
from typing import Any, Final

import cdk8s_plus_27 as kplus
from constructs import Construct

from hyperpod_dpd.catalog.instances import instance_types
from hyperpod_dpd.catalog.public_images import DCGM_EXPORTER, efa_exporter
from hyperpod_dpd.observability.jobs import DCGM, EFA, Job, exporters_namespace
from hyperpod_dpd.serving import names
from hyperpod_dpd.serving.images import pulled
from hyperpod_dpd.serving.objects import api_object, metadata
from hyperpod_dpd.serving.pod import Container, Privilege, Volume, pod_spec
from hyperpod_dpd.spec import Deployment

NOBODY: Final = 65534


class Exporters(Construct):
    """DaemonSets on every node with GPUs."""

    def __init__(self, scope: Construct, construct_id: str, *, deployment: Deployment) -> None:
        super().__init__(scope, construct_id)
        self._deployment = deployment
        self._add(
            DCGM,
            Container(
                name="exporter",
                image=pulled(DCGM_EXPORTER.reference, deployment),
                environment=(
                    {"name": "DCGM_EXPORTER_LISTEN", "value": f":{DCGM.port}"},
                    {"name": "DCGM_EXPORTER_KUBERNETES", "value": "true"},
                ),
                # profiling counters (`DCGM_FI_PROF_*`) need the capability, and the kubelet's socket is root's
                privilege=Privilege(root=True, capabilities=("SYS_ADMIN",)),
                volumes=(
                    _host(
                        "pod-resources", "/var/lib/kubelet/pod-resources", "/var/lib/kubelet/pod-resources"
                    ),
                ),
                **_common(DCGM, memory="512Mi"),
            ),
        )
        self._add(
            EFA,
            Container(
                name="exporter",
                image=efa_exporter(deployment.region),
                arguments=(
                    "--path.sysfs=/host/sys",
                    "--collector.disable-defaults",
                    "--collector.amazonefa",
                    f"--web.listen-address=:{EFA.port}",
                ),
                volumes=(_host("sys", "/sys", "/host/sys"),),
                **_common(EFA, memory="128Mi"),
            ),
            user=NOBODY,
        )

    def _add(self, job: Job, container: Container, *, user: int | None = None) -> None:
        deployment, component = self._deployment, job.component
        namespace = exporters_namespace(deployment)
        labels = names.labels(deployment, component)
        kplus.ServiceAccount(
            self,
            f"{component.value}-account",
            metadata=metadata(component.value, namespace=namespace, labels=labels),
            automount_token=False,
        )
        spec = pod_spec(
            service_account=component.value,
            api_token=False,
            containers=(container,),
            volumes=container.volumes,
            grace_seconds=10,
            affinity=_gpu_nodes(),
            # the counters of a node matter most while it is tainted
            tolerations=({"operator": "Exists"},),
            user=user,
        )
        api_object(
            self,
            component.value,
            api_version="apps/v1",
            kind="DaemonSet",
            name=component.value,
            namespace=namespace,
            labels=labels,
            spec={
                "selector": {"matchLabels": names.selector(deployment, component)},
                "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}},
                "template": {"metadata": {"labels": labels}, "spec": spec},
            },
        )


def _common(job: Job, *, memory: str) -> Mapping[str, Any]:
    probe = {
        "httpGet": {"path": "/" if job is EFA else "/health", "port": job.port_name},
        "periodSeconds": 30,
        "timeoutSeconds": 5,
        "failureThreshold": 4,
    }
    return {
        "ports": ({"name": job.port_name, "containerPort": job.port},),
        "resources": {"requests": {"cpu": "50m", "memory": memory}, "limits": {"memory": memory}},
        "probes": {"readinessProbe": probe, "livenessProbe": probe},
    }


def _host(name: str, path: str, mounted: str) -> Volume:
    return Volume(
        name=name, path=mounted, source={"hostPath": {"path": path, "type": "Directory"}}, read_only=True
    )


def _gpu_nodes() -> dict[str, Any]:
    return {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [
                    {
                        "matchExpressions": [
                            {
                                "key": "node.kubernetes.io/instance-type",
                                "operator": "In",
                                "values": sorted(each.name for each in instance_types()),
                            }
                        ]
                    }
                ]
            }
        }
    }
