"""The collector: reads every target of the cluster and writes to Amazon Managed Service for Prometheus."""

from typing import Any, Final

import cdk8s_plus_27 as kplus
import yaml
from constructs import Construct

from hyperpod_dpd.catalog.public_images import COLLECTOR
from hyperpod_dpd.observability.scraping import scrape_configs
from hyperpod_dpd.serving import names
from hyperpod_dpd.serving.bindings import Binding
from hyperpod_dpd.serving.engine import ConfigFile
from hyperpod_dpd.serving.images import pulled
from hyperpod_dpd.serving.names import Component
from hyperpod_dpd.serving.objects import api_object, leave_out, metadata
from hyperpod_dpd.serving.pod import Container, Volume, config_map, pod_spec
from hyperpod_dpd.serving.worker import config_hash, disruption_budget
from hyperpod_dpd.spec import Deployment

SERVICE_ACCOUNT: Final = Component.COLLECTOR.value
"""ServiceAccount of the collector; EKS Pod Identity gives it the right to write to the workspace."""

CONFIG_FILE: Final = "collector.yaml"
HEALTH_PORT: Final = 13133
USER_ID: Final = 10001

MEMORY_MIB: Final = 512
"""Enough for some ten thousand series at a time: a worker has about a thousand, its histograms included."""


class Collector(Construct):
    """One replica: two would write every sample twice, and the workspace refuses the second."""

    def __init__(self, scope: Construct, construct_id: str, *, deployment: Deployment) -> None:
        super().__init__(scope, construct_id)
        self._deployment = deployment
        namespace = deployment.platform.scraping_namespace
        component = Component.COLLECTOR
        labels, selector = names.labels(deployment, component), names.selector(deployment, component)
        account = kplus.ServiceAccount(
            self,
            "account",
            metadata=metadata(SERVICE_ACCOUNT, namespace=namespace, labels=labels),
            automount_token=False,
        )
        self._grant(account, labels)
        files = (ConfigFile(name=CONFIG_FILE, text=configuration(deployment)),)
        config = kplus.ConfigMap(
            self,
            "config",
            metadata=metadata(component.value, namespace=namespace, labels=labels),
            data={file.name: file.text for file in files},
        )
        leave_out(config, "/immutable")
        api_object(
            self,
            "deployment",
            api_version="apps/v1",
            kind="Deployment",
            name=component.value,
            namespace=namespace,
            labels=labels,
            spec={
                "replicas": 1,
                "revisionHistoryLimit": 3,
                "strategy": {"type": "Recreate"},
                "selector": {"matchLabels": selector},
                "template": {
                    "metadata": {
                        "labels": labels,
                        "annotations": {names.CONFIG_HASH_ANNOTATION: config_hash(files)},
                    },
                    "spec": _pod(deployment),
                },
            },
        )
        api_object(
            self,
            "budget",
            api_version="policy/v1",
            kind="PodDisruptionBudget",
            name=component.value,
            namespace=namespace,
            labels=labels,
            spec=disruption_budget(selector),
        )

    def _grant(self, account: kplus.ServiceAccount, labels: dict[str, str]) -> None:
        """Let the collector find pods, and nothing else.

        In every namespace, because deployments come and go and the collector stays.
        """
        role = kplus.ClusterRole(
            self, "role", metadata=metadata("hyperpod-dpd-metrics-collector", labels=labels)
        )
        role.allow(["get", "list", "watch"], kplus.ApiResource.PODS)
        binding = kplus.ClusterRoleBinding(
            self,
            "role-binding",
            metadata=metadata("hyperpod-dpd-metrics-collector", labels=labels),
            role=role,
        )
        binding.add_subjects(account)


def configuration(deployment: Deployment) -> str:
    """Return the collector's configuration. A dollar sign would be its own: relabelings use none."""
    config: dict[str, Any] = {
        "extensions": {
            "health_check": {"endpoint": f"0.0.0.0:{HEALTH_PORT}"},
            "sigv4auth": {"region": deployment.region, "service": "aps"},
        },
        "receivers": {"prometheus": {"config": {"scrape_configs": scrape_configs(deployment)}}},
        "processors": {
            "memory_limiter": {
                "check_interval": "1s",
                "limit_percentage": 80,
                "spike_limit_percentage": 20,
            },
            "batch": {"timeout": "5s", "send_batch_size": 1000},
        },
        "exporters": {
            "prometheusremotewrite": {
                "endpoint": f"{Binding.AMP_WORKSPACE_URL.placeholder}/api/v1/remote_write",
                "auth": {"authenticator": "sigv4auth"},
                # EFA's counters have no `_total`; with suffixes no rule would find them again
                "add_metric_suffixes": False,
                "target_info": {"enabled": False},
                "resource_to_telemetry_conversion": {"enabled": False},
            }
        },
        "service": {
            "extensions": ["health_check", "sigv4auth"],
            "telemetry": {"metrics": {"level": "none"}, "logs": {"encoding": "json"}},
            "pipelines": {
                "metrics": {
                    "receivers": ["prometheus"],
                    "processors": ["memory_limiter", "batch"],
                    "exporters": ["prometheusremotewrite"],
                }
            },
        },
    }
    return yaml.safe_dump(config, sort_keys=False, width=110)


def _pod(deployment: Deployment) -> dict[str, Any]:
    volumes = (
        Volume(
            name="config",
            path=names.CONFIG_DIRECTORY,
            source=config_map(Component.COLLECTOR.value),
            read_only=True,
        ),
    )
    probe = {
        "httpGet": {"path": "/", "port": "health"},
        "periodSeconds": 10,
        "timeoutSeconds": 2,
        "failureThreshold": 6,
    }
    container = Container(
        name="collector",
        image=pulled(COLLECTOR.reference, deployment),
        arguments=(f"--config={names.CONFIG_DIRECTORY}/{CONFIG_FILE}",),
        environment=({"name": "AWS_REGION", "value": deployment.region},),
        ports=({"name": "health", "containerPort": HEALTH_PORT},),
        resources={
            "requests": {"cpu": "200m", "memory": f"{MEMORY_MIB}Mi"},
            "limits": {"memory": f"{MEMORY_MIB}Mi"},
        },
        probes={"readinessProbe": probe, "livenessProbe": probe},
        volumes=volumes,
    )
    return pod_spec(
        service_account=SERVICE_ACCOUNT,
        api_token=True,
        containers=(container,),
        volumes=volumes,
        grace_seconds=30,
        node_selector={"kubernetes.io/arch": "amd64"},
        user=USER_ID,
    )
