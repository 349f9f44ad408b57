"""How a Prometheus finds the targets of a cluster: one scrape configuration per job.

The same jobs with the same labels come out of the collector and of a Prometheus operator, so that rules and dashboards
need not know who scrapes.
"""

from typing import Any, Final

from hyperpod_dpd.observability.jobs import (
    DECODE,
    EXPORTER_JOBS,
    PREFILL,
    SCRAPE_INTERVAL_SECONDS,
    SCRAPE_TIMEOUT_SECONDS,
    SERVING_JOBS,
    Job,
)
from hyperpod_dpd.serving import names
from hyperpod_dpd.serving.load_signals import DEPLOYMENT_LABEL, ROLE_LABEL
from hyperpod_dpd.spec import Deployment

OPERATOR_ROLE_LABEL: Final = "inference.sagemaker.aws.amazon.com/dpd-role"
"""Label that the HyperPod inference operator puts on its prefill and decode pods."""

_OPERATED: Final = (PREFILL, DECODE)
"""Jobs whose targets the operator may have made."""

_META: Final = "__meta_kubernetes_pod"


def jobs_of(deployment: Deployment) -> tuple[Job, ...]:
    """Return the jobs of the cluster of `deployment`."""
    return (*SERVING_JOBS, *(EXPORTER_JOBS if deployment.platform.exporters == "manifests" else ()))


def scraped_labels() -> tuple[tuple[tuple[str, str], int], ...]:
    """Return a label of the pods of every job, the operator's workers included, each with the port that is read."""
    return (
        *(((names.COMPONENT_LABEL, job.component.value), job.port) for job in SERVING_JOBS),
        *(((OPERATOR_ROLE_LABEL, job.component.value), job.port) for job in _OPERATED),
    )


def scrape_configs(deployment: Deployment) -> list[dict[str, Any]]:
    """Return the scrape configurations of every deployment on the cluster."""
    return [
        *(_config(job, _selector(job), relabelings(job)) for job in jobs_of(deployment)),
        *(_operated(job) for job in _OPERATED),
    ]


def relabelings(job: Job) -> list[dict[str, Any]]:
    """Return what turns the labels of a pod into those of its series."""
    kept = [
        _keep(f"{_META}_phase", "Running"),
        # a pod is a target once per port
        _keep(f"{_META}_container_port_number", str(job.port)),
        _copy(f"{_META}_node_name", "node"),
    ]
    if job in EXPORTER_JOBS:
        # DCGM's own `pod` and `namespace` say whose GPU it is
        return kept
    kept += [_copy("__meta_kubernetes_namespace", "namespace"), _copy(f"{_META}_name", "pod")]
    kept.append(_copy(_label(names.INSTANCE_LABEL), DEPLOYMENT_LABEL))
    if job.is_worker:
        kept.append(_copy(_label(names.COMPONENT_LABEL), ROLE_LABEL))
    return kept


def _operated(job: Job) -> dict[str, Any]:
    """Return the job of workers that the inference operator made: other labels, same series."""
    role = job.component.value
    relabeling = [
        *relabelings(job)[:-2],
        # the namespace is this project's, whoever makes the pods in it
        {**_copy("__meta_kubernetes_namespace", DEPLOYMENT_LABEL), "regex": "(.+)-workers"},
        _copy(_label(OPERATOR_ROLE_LABEL), ROLE_LABEL),
        {"target_label": "job", "replacement": job.name},
    ]
    config = _config(job, f"{OPERATOR_ROLE_LABEL}={role}", relabeling)
    return {**config, "job_name": f"{job.name}-operated"}


def _config(job: Job, selector: str, relabeling: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "job_name": job.name,
        "metrics_path": job.path,
        "scrape_interval": f"{SCRAPE_INTERVAL_SECONDS}s",
        "scrape_timeout": f"{SCRAPE_TIMEOUT_SECONDS}s",
        "kubernetes_sd_configs": [{"role": "pod", "selectors": [{"role": "pod", "label": selector}]}],
        "relabel_configs": relabeling,
    }


def _selector(job: Job) -> str:
    return f"{names.PART_OF_LABEL}={names.PART_OF},{names.COMPONENT_LABEL}={job.component.value}"


def _label(name: str) -> str:
    return f"{_META}_label_" + "".join(char if char.isalnum() else "_" for char in name)


def _keep(source: str, value: str) -> dict[str, Any]:
    return {"source_labels": [source], "regex": value, "action": "keep"}


def _copy(source: str, target: str) -> dict[str, Any]:
    return {"source_labels": [source], "target_label": target}
