"""The router: Deployment, Service, rights, and the way in from outside the cluster."""

import json
from typing import Any, Final

import cdk8s_plus_27 as kplus
from constructs import Construct

from hyperpod_dpd.rules.kubernetes.dpd_k8s_009 import LONGEST_IDLE_SECONDS
from hyperpod_dpd.serving import names
from hyperpod_dpd.serving.bindings import Binding
from hyperpod_dpd.serving.engine import Probe
from hyperpod_dpd.serving.images import pulled
from hyperpod_dpd.serving.names import Component
from hyperpod_dpd.serving.objects import api_object, leave_out, metadata
from hyperpod_dpd.serving.pod import Container, Volume, empty_dir, http_probe, pod_spec
from hyperpod_dpd.serving.router_arguments import (
    API_KEYS_DIRECTORY,
    DEREGISTRATION_SECONDS,
    load_balancer_idle_seconds,
    router_grace_seconds,
)
from hyperpod_dpd.serving.secrets import API_KEYS_SECRET
from hyperpod_dpd.serving.worker import disruption_budget
from hyperpod_dpd.spec import Deployment, LoadBalancer

HTTP_PORT_NAME: Final = names.ROUTER_PORT_NAME
NOTIFICATION_PORT_NAME: Final = "kv-notify"

USER_ID: Final = 65532
"""User and group of the router's process, as its image has it."""

OWN_ADDRESSES_VARIABLE: Final = "DPD_ROUTER_OWN_ADDRESSES"
"""Tells the router which addresses behind its Service are its own; the others are another router's."""

LONGEST_START_SECONDS: Final = 12 * 3600
"""How long the first decoder may take: as long as CloudFormation waits for nodes. Then the router restarts, and waits."""

_START_PERIOD_SECONDS: Final = 5

_OWN_START_SECONDS: Final = 600
"""Time for the router's own image and start, which is Kubernetes' deadline for the progress of any Deployment."""


class IdleTimeoutTooLongError(ValueError):
    """A load balancer cannot keep a connection open as long as the longest answer may take."""


class Router(Construct):
    """One replica, because it owns the notification socket and the books of every decoder's buffer.

    Two would each see half of the notifications and both believe that a buffer is theirs. An update runs two for a
    while all the same, so that no request meets a closed door: as long as a router sees another one behind its Service
    it hands nothing over, and every prompt is decoded where it is prefilled.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        deployment: Deployment,
        arguments: tuple[str, ...],
        decoder_within_seconds: int,
    ) -> None:
        """Create the objects.

        Args:
            scope: chart that takes the objects.
            construct_id: id of this construct in `scope`.
            deployment: the deployment.
            arguments: the router's command line, see `router_arguments`.
            decoder_within_seconds: longest time until a decoder serves; the router is not ready before.
        """
        super().__init__(scope, construct_id)
        self._deployment = deployment
        self._namespace = names.system_namespace(deployment)
        self._labels = names.labels(deployment, Component.ROUTER)
        self._selector = names.selector(deployment, Component.ROUTER)
        account = kplus.ServiceAccount(
            self,
            "account",
            metadata=self._metadata(names.ROUTER_SERVICE_ACCOUNT, self._namespace),
            automount_token=False,
        )
        self._grant(account)
        api_object(
            self,
            "deployment",
            api_version="apps/v1",
            kind="Deployment",
            name=Component.ROUTER.value,
            namespace=self._namespace,
            labels=self._labels,
            spec={
                "replicas": 1,
                "revisionHistoryLimit": 3,
                # it waits for the weights of a decoder; with Kubernetes' ten minutes it would be given up before them
                "progressDeadlineSeconds": decoder_within_seconds + _OWN_START_SECONDS,
                "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
                "selector": {"matchLabels": self._selector},
                "template": {"metadata": {"labels": self._labels}, "spec": self._pod(arguments)},
            },
        )
        self.service = self._add_service()
        api_object(
            self,
            "budget",
            api_version="policy/v1",
            kind="PodDisruptionBudget",
            name=Component.ROUTER.value,
            namespace=self._namespace,
            labels=self._labels,
            spec=disruption_budget(self._selector),
        )

    def _metadata(self, name: str, namespace: str) -> Any:
        return metadata(name, namespace=namespace, labels=self._labels)

    def _grant(self, account: kplus.ServiceAccount) -> None:
        """Let the router read the EndpointSlices of the workers and of its own Service, and nothing else."""
        for suffix, namespace in (
            ("", names.workers_namespace(self._deployment)),
            ("-system", self._namespace),
        ):
            role = kplus.Role(self, f"role{suffix}", metadata=self._metadata("router-discovery", namespace))
            role.allow(
                ["get", "list", "watch"],
                kplus.ApiResource.ENDPOINT_SLICES,  # type: ignore[arg-type] # jsii leaves the optional member out
            )
            binding = kplus.RoleBinding(
                self,
                f"role-binding{suffix}",
                metadata=self._metadata("router-discovery", namespace),
                role=role,
            )
            binding.add_subjects(account)

    def _add_service(self) -> kplus.Service:
        service = kplus.Service(
            self,
            "service",
            metadata=self._metadata(names.router_service(), self._namespace),
            type=kplus.ServiceType.CLUSTER_IP,
            ports=[
                kplus.ServicePort(name=HTTP_PORT_NAME, port=names.ROUTER_PORT, target_port=names.ROUTER_PORT),
                kplus.ServicePort(
                    name=NOTIFICATION_PORT_NAME,
                    port=names.NOTIFICATION_PORT,
                    target_port=names.NOTIFICATION_PORT,
                ),
            ],
        )
        leave_out(service, "/spec/externalIPs")
        for label, value in self._selector.items():
            service.select_label(label, value)
        return service

    def _pod(self, arguments: tuple[str, ...]) -> dict[str, Any]:
        routing = self._deployment.routing
        volumes = [Volume(name="tmp", path="/tmp", source=empty_dir())]  # noqa: S108 -- the pod's own
        if routing.api_keys_secret is not None:
            keys = {"secret": {"secretName": API_KEYS_SECRET}}
            volumes.append(Volume(name="api-keys", path=API_KEYS_DIRECTORY, source=keys, read_only=True))
        size = {"cpu": f"{routing.cpu:g}", "memory": f"{routing.memory_gib}Gi"}
        container = Container(
            name="router",
            image=_image(self._deployment),
            command=("dpd-router",),
            arguments=arguments,
            ports=(
                {"name": HTTP_PORT_NAME, "containerPort": names.ROUTER_PORT},
                {"name": NOTIFICATION_PORT_NAME, "containerPort": names.NOTIFICATION_PORT},
            ),
            resources={"requests": size, "limits": size},
            environment=(
                {
                    "name": OWN_ADDRESSES_VARIABLE,
                    "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}},
                },
            ),
            probes={
                # before its first decoder a new router takes nothing from the one that still has them
                "startupProbe": _probe(
                    "/ready",
                    period_seconds=_START_PERIOD_SECONDS,
                    failure_threshold=LONGEST_START_SECONDS // _START_PERIOD_SECONDS,
                ),
                # later, without a decoder, clients shall read 503 and when to come back
                "readinessProbe": _probe("/health", period_seconds=5, failure_threshold=2),
                "livenessProbe": _probe("/health", period_seconds=10, failure_threshold=6),
            },
            lifecycle={"preStop": {"sleep": {"seconds": DEREGISTRATION_SECONDS}}},
            volumes=tuple(volumes),
        )
        return pod_spec(
            service_account=names.ROUTER_SERVICE_ACCOUNT,
            api_token=True,
            containers=(container,),
            volumes=volumes,
            grace_seconds=router_grace_seconds(self._deployment),
            affinity=off_gpu_nodes(self._deployment),
            user=USER_ID,
        )


class RouterIngress(Construct):
    """An Application Load Balancer with TLS in front of the router."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        deployment: Deployment,
        service: kplus.Service,
        balancer: LoadBalancer,
    ) -> None:
        """Create the Ingress.

        Raises:
            IdleTimeoutTooLongError: the longest answer takes longer than a load balancer keeps a connection open.
        """
        super().__init__(scope, construct_id)
        ingress = kplus.Ingress(
            self,
            "ingress",
            metadata=metadata(
                Component.ROUTER.value,
                namespace=names.system_namespace(deployment),
                labels=names.labels(deployment, Component.ROUTER),
                annotations=_load_balancer(deployment, balancer),
            ),
            class_name="alb",
        )
        ingress.add_rule(
            "/",
            kplus.IngressBackend.from_service(service, port=names.ROUTER_PORT),
            kplus.HttpIngressPathType.PREFIX,
        )


def _load_balancer(deployment: Deployment, balancer: LoadBalancer) -> dict[str, str]:
    """Return the annotations of the AWS Load Balancer Controller."""
    longest = deployment.serving.longest_generation_seconds
    if longest > LONGEST_IDLE_SECONDS:
        raise IdleTimeoutTooLongError(
            f"an answer may be silent for longer than a load balancer waits: given "
            f"`longest_generation_seconds: {longest}`, limit {LONGEST_IDLE_SECONDS} seconds of idle timeout. "
            "help: lower it, or remove `routing.load_balancer`"
        )
    idle = load_balancer_idle_seconds(deployment)
    network = deployment.network
    inbound = balancer.inbound_cidrs or network.vpc_cidrs
    attributes = {
        "idle_timeout.timeout_seconds": str(idle),
        "routing.http.drop_invalid_header_fields.enabled": "true",
    }
    group_attributes = {"deregistration_delay.timeout_seconds": str(min(longest, 3600))}
    annotations = {
        "scheme": balancer.scheme,
        "target-type": "ip",
        "listen-ports": json.dumps([{"HTTPS": 443}]),
        "certificate-arn": balancer.certificate_arn or Binding.CERTIFICATE_ARN.placeholder,
        "ssl-policy": "ELBSecurityPolicy-TLS13-1-2-2021-06",
        "inbound-cidrs": ",".join(inbound),
        "backend-protocol": "HTTP",
        "healthcheck-path": "/ready",
        "healthcheck-interval-seconds": "10",
        "healthcheck-timeout-seconds": "5",
        "load-balancer-attributes": _attributes(attributes),
        "target-group-attributes": _attributes(group_attributes),
    }
    if network.existing is not None:
        # its owner's subnets may carry the tags by which the controller finds them, for other clusters' load balancers
        annotations["subnets"] = ",".join(network.existing.balancer_subnet_ids)
    if balancer.waf_acl_arn is not None:
        annotations["wafv2-acl-arn"] = balancer.waf_acl_arn
    return {f"alb.ingress.kubernetes.io/{key}": value for key, value in annotations.items()}


def _attributes(values: dict[str, str]) -> str:
    return ",".join(f"{key}={value}" for key, value in values.items())


def _image(deployment: Deployment) -> str:
    given = deployment.platform.images.router
    return pulled(given, deployment) if given else Binding.ROUTER_IMAGE.placeholder


def _probe(path: str, *, period_seconds: int, failure_threshold: int) -> dict[str, Any]:
    probe = Probe(
        path=path, period_seconds=period_seconds, timeout_seconds=2, failure_threshold=failure_threshold
    )
    return http_probe(probe, HTTP_PORT_NAME)


def off_gpu_nodes(deployment: Deployment) -> dict[str, Any]:
    """Return the affinity that keeps a pod off the GPU nodes, which come and go, and near them: each hop to another zone costs."""
    groups = [group.name for group in deployment.hyperpod.instance_groups]
    return {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [
                    {
                        "matchExpressions": [
                            {"key": names.INSTANCE_GROUP_LABEL, "operator": "NotIn", "values": groups},
                            {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]},
                        ]
                    }
                ]
            },
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {
                    "weight": 100,
                    "preference": {
                        "matchExpressions": [
                            {
                                "key": "topology.k8s.aws/zone-id",
                                "operator": "In",
                                "values": [deployment.network.gpu_zone_id],
                            }
                        ]
                    },
                }
            ],
        }
    }
