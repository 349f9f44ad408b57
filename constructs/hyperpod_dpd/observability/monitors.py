"""What a Prometheus operator reads: PodMonitors and the rules of a deployment."""

from collections.abc import Iterable
from typing import Any

from constructs import Construct

from hyperpod_dpd.observability.jobs import (
    SCRAPE_INTERVAL_SECONDS,
    SCRAPE_TIMEOUT_SECONDS,
    Job,
)
from hyperpod_dpd.observability.rules import Group
from hyperpod_dpd.observability.rules.rule import groups_as_dicts
from hyperpod_dpd.observability.scraping import relabelings
from hyperpod_dpd.serving import names
from hyperpod_dpd.serving.objects import api_object
from hyperpod_dpd.spec import Deployment

API_VERSION = "monitoring.coreos.com/v1"


class Monitors(Construct):
    """One PodMonitor per job, beside the pods that it selects.

    PodMonitors and not ServiceMonitors: a worker that is not ready is in no Service, and is the one to look at.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        deployment: Deployment,
        jobs: Iterable[tuple[Job, str]],
    ) -> None:
        """Create the monitors.

        Args:
            scope: chart that takes the objects.
            construct_id: id of this construct in `scope`.
            deployment: the deployment.
            jobs: each job with the namespace of its pods.
        """
        super().__init__(scope, construct_id)
        for job, namespace in jobs:
            api_object(
                self,
                job.name,
                api_version=API_VERSION,
                kind="PodMonitor",
                name=job.name,
                namespace=namespace,
                labels=_labels(deployment, names.labels(deployment, job.component)),
                spec={
                    "selector": {"matchLabels": names.selector(deployment, job.component)},
                    "podMetricsEndpoints": [
                        {
                            "port": job.port_name,
                            "path": job.path,
                            "interval": f"{SCRAPE_INTERVAL_SECONDS}s",
                            "scrapeTimeout": f"{SCRAPE_TIMEOUT_SECONDS}s",
                            "relabelings": [
                                *(_relabeling(each) for each in relabelings(job)),
                                {"targetLabel": "job", "replacement": job.name},
                            ],
                        }
                    ],
                },
            )


class AlertRules(Construct):
    """The rules of a deployment as a PrometheusRule."""

    def __init__(
        self, scope: Construct, construct_id: str, *, deployment: Deployment, groups: Iterable[Group]
    ) -> None:
        super().__init__(scope, construct_id)
        api_object(
            self,
            "rules",
            api_version=API_VERSION,
            kind="PrometheusRule",
            name="hyperpod-dpd",
            namespace=names.system_namespace(deployment),
            labels=_labels(deployment, names.labels(deployment)),
            spec={"groups": groups_as_dicts(groups, deployment=deployment)},
        )


def _labels(deployment: Deployment, own: dict[str, str]) -> dict[str, str]:
    """Return the labels by which a Prometheus selects the object, and its `own`, which selectors of ours read."""
    return {**(deployment.platform.scraping_labels or {}), **own}


def _relabeling(config: dict[str, Any]) -> dict[str, Any]:
    """Return a relabeling with the operator's spelling of its keys."""
    keys = {"source_labels": "sourceLabels", "target_label": "targetLabel"}
    return {keys.get(key, key): value for key, value in config.items()}
