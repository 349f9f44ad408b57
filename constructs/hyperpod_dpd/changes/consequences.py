"""What a change of a field does, by where its value is used."""

from collections.abc import Mapping
from enum import Enum

from hyperpod_dpd.changes.fields import Difference
from hyperpod_dpd.spec import Deployment


class Consequence(Enum):
    """What happens on the next deployment, the gravest first."""

    ELSEWHERE = "another deployment: its stacks are created with everything in them, those of the old file stay until destroyed"
    SECOND_CLUSTER = (
        "a second HyperPod cluster: the old one is retained and keeps its nodes until it is deleted by hand"
    )
    REFUSED = (
        "refused: create-only in the VPC, its subnets or the clusters, whose explicit names keep CloudFormation from "
        "replacing them. help: deploy a second deployment under another name, then destroy this one"
    )
    GROUPS = (
        "instance groups come and go: HyperPod deletes the nodes of a group that is no longer in the file"
    )
    INSTANCE_TYPE = (
        "other nodes: nothing documents that HyperPod changes this on a group that exists. help: give the group a new "
        "name, so that it is created beside the old one"
    )
    VOLUME_KEYS = (
        "refused: HyperPod cannot change the keys of a group's volumes. help: give the group a new name, so that it is "
        "created beside the old one"
    )
    NODES = "HyperPod gets another number of nodes: cost and quota change, nodes that stay are not touched"
    NODE_SETTINGS = (
        "HyperPod updates the group in place; nodes that run may keep the old value until they are replaced"
    )
    HYPERPOD = "the HyperPod cluster is updated in place, its nodes are not touched"
    BACKEND = "the objects of one backend are removed, those of the other created: no endpoint in between"
    GENERATION = (
        "prefill and decode workers are replaced together: the two generations cannot exchange KV cache, and Services "
        "select one of them"
    )
    PREFILL = "prefill workers roll, one after the other; each finishes its answers first"
    DECODE = "decode workers roll, one after the other; each finishes its answers first"
    ROUTER = "the router is replaced without a gap: until the old one has ended, prompts are decoded where they are prefilled"
    ENDPOINT = "the InferenceEndpointConfig changes; the operator decides which of its pods it replaces"
    WORKERS = "workers are started or, after their answers, ended; those that stay are not touched"
    EKS = "EKS is updated in place (cluster stack)"
    SYSTEM_NODES = (
        "the system nodes are replaced or changed by EKS (cluster stack); GPU nodes are not touched"
    )
    NETWORK = "the network is updated in place (network stack)"
    RESOURCES = "resources are updated in place: log retention, tags, removal policies, published names"
    OBJECTS = (
        "Kubernetes objects change: policies, rights, autoscaling, entrance, monitoring; no pod restarts"
    )
    PLATFORM = "add-ons and what exists once per cluster change; workers and router do not restart"
    IMPORT = "the model is imported again: files that differ are copied into its bucket, no pod restarts"
    BASELINE = "only the colocated profiles that are compared with change"
    PLAN = "nothing that runs: rules, plan, prices and alerts read it"
    UNREAD = "nothing: the backend of these deployments does not read it"


_C = Consequence
_BOTH = (_C.PREFILL, _C.DECODE)
_EVERYTHING = (_C.GENERATION, _C.ROUTER, _C.ENDPOINT, _C.OBJECTS)

EFFECTS: Mapping[str, tuple[Consequence, ...]] = {
    "version": (_C.PLAN,),
    "name": (_C.ELSEWHERE,),
    "region": (_C.ELSEWHERE,),
    "account": (_C.ELSEWHERE,),
    "network.gpu_zone_id": (_C.REFUSED, _C.ROUTER),
    "network.cluster_zone_ids": (_C.REFUSED,),
    "network.cidr": (_C.REFUSED, _C.OBJECTS),
    "network.gpu_cidr": (_C.REFUSED, _C.OBJECTS),
    "network.egress": (_C.NETWORK,),
    "network.interface_endpoints": (_C.NETWORK,),
    "network.flow_log_retention_days": (_C.NETWORK,),
    "network.existing": (_C.REFUSED, _C.OBJECTS),
    "network.existing.vpc_id": (_C.REFUSED,),
    "network.existing.gpu_subnet_id": (_C.REFUSED,),
    "network.existing.cidrs": (_C.NETWORK, _C.OBJECTS),
    "network.existing.system_subnet_ids": (
        _C.NETWORK,
        _C.EKS,
        _C.SYSTEM_NODES,
        _C.HYPERPOD,
        _C.PLATFORM,
        _C.OBJECTS,
    ),
    "network.existing.cluster_subnet_ids": (_C.EKS,),
    "network.existing.load_balancer_subnet_ids": (_C.OBJECTS,),
    "network.existing.endpoint_services": (_C.NETWORK,),
    "cluster.kubernetes_version": (_C.EKS, _C.OBJECTS, _C.PLATFORM),
    "cluster.endpoint_access": (_C.EKS,),
    "cluster.public_access_cidrs": (_C.EKS,),
    "cluster.administrators": (_C.EKS,),
    "cluster.system_nodes": (_C.SYSTEM_NODES,),
    "cluster.addon_versions": (_C.EKS,),
    "cluster.dependencies_chart": (_C.HYPERPOD,),
    "cluster.existing": (_C.SECOND_CLUSTER,),
    "hyperpod.instance_groups[]": (_C.GROUPS, _C.NODES, *_BOTH, _C.ROUTER, _C.ENDPOINT),
    "hyperpod.instance_groups[].name": (_C.GROUPS, *_BOTH, _C.ROUTER, _C.ENDPOINT),
    "hyperpod.instance_groups[].instance_type": (_C.INSTANCE_TYPE, *_BOTH, _C.ENDPOINT),
    "hyperpod.instance_groups[].count": (_C.NODES,),
    "hyperpod.instance_groups[].role": (*_BOTH, _C.ENDPOINT),
    "hyperpod.instance_groups[].minimum": (_C.NODES,),
    "hyperpod.instance_groups[].zone_id": (_C.PLAN,),
    "hyperpod.instance_groups[].capacity": (_C.NODES,),
    "hyperpod.instance_groups[].labels": (_C.NODE_SETTINGS,),
    "hyperpod.instance_groups[].taints": (_C.NODE_SETTINGS, *_BOTH),
    "hyperpod.instance_groups[].volume_gib": (_C.NODE_SETTINGS,),
    "hyperpod.instance_groups[].volumes_kms_key_arn": (_C.VOLUME_KEYS,),
    "hyperpod.instance_groups[].threads_per_core": (_C.NODE_SETTINGS, *_BOTH),
    "hyperpod.instance_groups[].deep_health_checks": (_C.NODE_SETTINGS,),
    "hyperpod.instance_groups[].placement_group": (_C.NODE_SETTINGS,),
    "hyperpod.cluster_name": (_C.SECOND_CLUSTER,),
    "hyperpod.node_recovery": (_C.HYPERPOD,),
    "hyperpod.continuous_provisioning": (_C.HYPERPOD,),
    "hyperpod.tiered_storage_memory_percent": (_C.HYPERPOD,),
    "model.name": _EVERYTHING,
    "model.source": (_C.GENERATION, _C.ENDPOINT, _C.OBJECTS, _C.PLATFORM),
    "model.source.kms_key_arn": (_C.PLATFORM,),
    "model.imported_from": (_C.IMPORT,),
    "model.imported_from.kms_key_arn": (_C.PLATFORM,),
    "model.repository": (_C.GENERATION, _C.ENDPOINT),
    "model.revision": (_C.GENERATION, _C.ENDPOINT, _C.OBJECTS),
    "model.config_file": _EVERYTHING,
    "model.served_name": (*_BOTH, _C.ENDPOINT),
    "model.weights": (_C.GENERATION, _C.ENDPOINT, _C.OBJECTS),
    "model.kv_cache": _EVERYTHING,
    "model.trust_remote_code": (*_BOTH, _C.ENDPOINT),
    "serving.backend": (_C.BACKEND,),
    "serving.engine": (_C.GENERATION, _C.ENDPOINT, _C.OBJECTS),
    "serving.tensor_parallel": _EVERYTHING,
    "serving.max_model_len_tokens": (_C.GENERATION, _C.ENDPOINT, _C.OBJECTS),
    "serving.longest_generation_seconds": (*_BOTH, _C.ROUTER, _C.OBJECTS),
    "serving.transfer.type": _EVERYTHING,
    "serving.transfer.backend": (_C.GENERATION, _C.OBJECTS),
    "serving.transfer.pd_buffer_gib": (*_BOTH, _C.ROUTER, _C.ENDPOINT),
    "serving.transfer.decode_pd_buffer_gib": (_C.DECODE, _C.ROUTER, _C.ENDPOINT),
    "serving.transfer.chunk_tokens": _EVERYTHING,
    "serving.transfer.init_port_base": (_C.GENERATION, _C.ROUTER, _C.OBJECTS),
    "serving.transfer.alloc_port_base": (_C.GENERATION, _C.ROUTER, _C.OBJECTS),
    "serving.transfer.port_epochs": (_C.GENERATION, _C.ROUTER, _C.OBJECTS),
    "serving.transfer.allocation_timeout_seconds": (*_BOTH, _C.ROUTER),
    "serving.transfer.hash_seed": (_C.GENERATION, _C.ENDPOINT, _C.OBJECTS),
    "serving.transfer.block_size_tokens": (_C.GENERATION, _C.ENDPOINT, _C.OBJECTS),
    **{
        f"serving.{role.name.lower()}.{field}": effects
        for role in (_C.PREFILL, _C.DECODE)
        for field, effects in {
            "instance_group": (role, _C.ENDPOINT),
            "replicas": (_C.WORKERS, _C.ENDPOINT),
            "gpus": (role, _C.ENDPOINT),
            "gpu_memory_utilization": (role, _C.ENDPOINT),
            "max_num_seqs": (role, _C.ENDPOINT),
            "max_num_batched_tokens": (role, _C.ENDPOINT),
            "enforce_eager": (role, _C.ENDPOINT),
            "prefix_caching": (role, _C.ENDPOINT),
            "environment": (role,),
            "extra_args": (role, _C.ENDPOINT),
            "scaling": (_C.OBJECTS, _C.ENDPOINT),
        }.items()
    },
    "serving.baseline": (_C.BASELINE,),
    "serving.huge_pages_mib": _BOTH,
    "serving.shared_memory_gib": _BOTH,
    "serving.security.workers": (*_BOTH, _C.OBJECTS),
    "serving.prefillers_per_decoder": (_C.PLAN,),
    "serving.instance_cache": (_C.ENDPOINT,),
    "serving.operator": (_C.ENDPOINT,),
    "routing.threshold_tokens": (_C.ROUTER, _C.ENDPOINT),
    "routing.estimator": (_C.ROUTER,),
    "routing.strategy": (_C.DECODE, _C.ROUTER, _C.ENDPOINT),
    "routing.affinity": (_C.ROUTER,),
    "routing.policy": (_C.ENDPOINT,),
    "routing.notification_timeout_seconds": (*_BOTH, _C.ROUTER, _C.OBJECTS),
    "routing.max_concurrent_requests": (_C.ROUTER,),
    "routing.max_queued_mib": (_C.ROUTER,),
    "routing.api_keys_secret": (_C.ROUTER, _C.OBJECTS),
    # the router keeps idle connections longer than the load balancer in front of it
    "routing.load_balancer": (_C.OBJECTS, _C.ROUTER),
    "routing.client_namespaces": (_C.OBJECTS,),
    "routing.cpu": (_C.ROUTER,),
    "routing.memory_gib": (_C.ROUTER,),
    "routing.tracing_endpoint": (*_BOTH, _C.ROUTER, _C.OBJECTS),
    "traffic": (_C.PLAN,),
    "slo": (_C.PLAN,),
    "platform.inference_operator": (_C.PLATFORM,),
    "platform.observability_addon": (_C.PLATFORM,),
    "platform.scraping": (_C.PLATFORM, _C.OBJECTS),
    "platform.scraping_namespace": (_C.PLATFORM, _C.OBJECTS),
    "platform.scraping_labels": (_C.PLATFORM, _C.OBJECTS),
    "platform.exporters": (_C.PLATFORM, _C.OBJECTS),
    "platform.network_policies": (_C.EKS,),
    "platform.external_secrets": (_C.PLATFORM, _C.OBJECTS),
    "platform.autoscaling": (_C.PLATFORM, _C.OBJECTS),
    "platform.load_balancer_controller": (_C.PLATFORM, _C.OBJECTS),
    "platform.grafana": (_C.PLATFORM,),
    "platform.images.source": (_C.GENERATION, _C.ROUTER),
    "platform.images.worker": (_C.GENERATION, _C.OBJECTS, _C.PLATFORM),
    "platform.images.router": (_C.ROUTER, _C.PLATFORM),
    "platform.images.proof": (_C.PLATFORM, _C.OBJECTS),
    "platform.images.benchmark": (_C.PLATFORM, _C.OBJECTS),
    "platform.images.mirror_public_images": (_C.PLATFORM,),
    "platform.alerts": (_C.PLATFORM,),
    "platform.nights_off": (_C.PLATFORM,),
    "platform.monthly_budget_usd": (_C.PLATFORM,),
    "platform.custom_resources": (_C.OBJECTS,),
    "platform.log_retention_days": (_C.RESOURCES,),
    "prices": (_C.PLAN,),
    "organization": (_C.RESOURCES,),
    "tags": (_C.RESOURCES, _C.ENDPOINT),
    "removal": (_C.RESOURCES,),
    "acknowledge": (_C.PLAN,),
}
"""Consequences by path, or by the path above it where every field below is used in one place.

Tests hold this table to what differs: the pods, where a change of each field that reaches a manifest is rendered, and
the stacks, where one of each field that reaches a template is synthesized.
"""

_OPERATOR_ONLY = {_C.ENDPOINT}
_SELF_MANAGED_ONLY = {_C.GENERATION, _C.PREFILL, _C.DECODE, _C.ROUTER, _C.WORKERS, _C.BASELINE}


def consequences(difference: Difference, old: Deployment, new: Deployment) -> tuple[Consequence, ...]:
    """Return what `difference` does, the gravest first.

    Under another name or in another region everything is created anew, whatever the field.
    """
    if (old.name, old.region) != (new.name, new.region):
        return (Consequence.ELSEWHERE,)
    backends = {old.serving.backend, new.serving.backend}
    unread: set[Consequence] = set()
    if "operator" not in backends:
        unread |= _OPERATOR_ONLY
    if "self-managed" not in backends:
        unread |= _SELF_MANAGED_ONLY
    found = _narrowed(effects(difference.pattern), difference, old, new) - unread
    return tuple(each for each in Consequence if each in found) or (Consequence.UNREAD,)


def effects(pattern: str) -> set[Consequence]:
    """Return the entry of `pattern` or of the nearest path above it, with those of all paths below.

    A list item that comes or goes has an entry of its own.

    Raises:
        KeyError: the table knows neither.
    """
    if pattern.endswith("[]") and pattern in EFFECTS:
        return set(EFFECTS[pattern])
    below = {each for path in EFFECTS if _is_below(path, pattern) for each in EFFECTS[path]}
    above = pattern
    while above not in EFFECTS:
        cut = max(above.rfind("."), above.rfind("["))
        if cut <= 0:
            if below:
                return below
            raise KeyError(pattern)
        above = above[:cut]
    return below | set(EFFECTS[above])


def _is_below(path: str, pattern: str) -> bool:
    return path.startswith((f"{pattern}.", f"{pattern}["))


_IMAGES = {f"platform.images.{name}" for name in ("worker", "router", "proof", "benchmark")}


def _narrowed(
    found: set[Consequence], difference: Difference, old: Deployment, new: Deployment
) -> set[Consequence]:
    """Leave out what the two deployments together show not to happen."""
    if difference.path == "account" and None in (difference.old, difference.new):
        # naming the account that is deployed to already moves nothing
        return {Consequence.RESOURCES}
    if difference.pattern.startswith("network.") and None not in (old.cluster.existing, new.cluster.existing):
        # the network is that of the cluster's owner: this deployment's objects know it, and nothing else
        return found & {Consequence.OBJECTS, Consequence.ROUTER} or {Consequence.PLAN}
    if difference.path == "network.existing":
        # nothing moves a cluster into another VPC, so nothing comes of what else would change
        return {Consequence.REFUSED}
    if difference.pattern in _IMAGES and None not in (difference.old, difference.new):
        # builds come or go only where a digest takes their place
        return found - {Consequence.PLATFORM}
    if not difference.pattern.startswith("hyperpod.instance_groups[]"):
        return found
    name = difference.path.partition("[")[2].partition("]")[0]
    roles = {
        consequence
        for consequence, role in ((Consequence.PREFILL, "prefill"), (Consequence.DECODE, "decode"))
        for deployment in (old, new)
        if name in _groups_of(deployment, role)
    }
    return found - ({Consequence.PREFILL, Consequence.DECODE} - roles)


def _groups_of(deployment: Deployment, role: str) -> set[str]:
    """Return the names of the groups on which workers of `role` run."""
    worker = deployment.serving.prefill if role == "prefill" else deployment.serving.decode
    if worker.instance_group is not None:
        return {worker.instance_group}
    return {group.name for group in deployment.hyperpod.instance_groups if group.role in (None, role)}
