"""Dashboards for a Grafana on the cluster, whose sidecar reads ConfigMaps."""

from typing import Final

import cdk8s_plus_27 as kplus
from constructs import Construct

from hyperpod_dpd.observability.dashboards import BOARDS, as_json
from hyperpod_dpd.serving import names
from hyperpod_dpd.serving.objects import leave_out, metadata
from hyperpod_dpd.spec import Deployment

SIDECAR_LABEL: Final = "grafana_dashboard"
"""Label that the sidecar of Grafana's Helm chart looks for, its default."""


class DashboardConfigMaps(Construct):
    """One ConfigMap per dashboard: together they would be near the size that one may have."""

    def __init__(self, scope: Construct, construct_id: str, *, deployment: Deployment) -> None:
        super().__init__(scope, construct_id)
        for board in BOARDS:
            config = kplus.ConfigMap(
                self,
                board.uid,
                metadata=metadata(
                    board.uid,
                    namespace=deployment.platform.scraping_namespace,
                    labels={**names.platform_labels(), SIDECAR_LABEL: "1"},
                ),
                data={f"{board.uid}.json": as_json(board)},
            )
            leave_out(config, "/immutable")
