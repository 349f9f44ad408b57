"""Every question that a preflight asks, one file each."""

from hyperpod_dpd.preflight.check import Check
from hyperpod_dpd.preflight.checks import (
    addons,
    alert_topic,
    bootstrap,
    certificates,
    chart_archive,
    execution_role,
    existing_cluster,
    file_system,
    grafana,
    hugging_face,
    identity,
    images,
    kubernetes_version,
    model_bucket,
    names,
    offerings,
    prometheus,
    quota_builds,
    quota_cluster,
    quota_instances,
    quota_interfaces,
    quota_network,
    quota_system_nodes,
    region,
    secrets,
    service_linked_role,
    subnets,
    tls_bucket,
    training_plan,
    zones,
)

GATE: Check = identity.CHECK
"""Asked first and alone: who am I."""

CHECKS: tuple[Check, ...] = (
    region.CHECK,
    training_plan.CHECK,
    bootstrap.CHECK,
    execution_role.CHECK,
    model_bucket.CHECK,
    file_system.CHECK,
    chart_archive.CHECK,
    tls_bucket.CHECK,
    hugging_face.CHECK,
    kubernetes_version.CHECK,
    addons.CHECK,
    existing_cluster.CHECK,
    service_linked_role.CHECK,
    images.CHECK,
    names.CHECK,
    subnets.CHECK,
    prometheus.CHECK,
    grafana.CHECK,
    alert_topic.CHECK,
    quota_instances.CHECK,
    quota_cluster.CHECK,
    quota_network.CHECK,
    quota_interfaces.CHECK,
    quota_system_nodes.CHECK,
    quota_builds.CHECK,
    secrets.CHECK,
    certificates.CHECK,
    zones.CHECK,
    offerings.CHECK,
)
"""Everything else, asked at the same time, in the order of ids."""

ALL: tuple[Check, ...] = (GATE, *CHECKS)
