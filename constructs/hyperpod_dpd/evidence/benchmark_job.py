"""The benchmark as a Job: not root, nothing writable but its own scratch space, results to S3."""

from typing import Any, Final

import cdk8s_plus_27 as kplus
from cdk8s import App, Chart
from constructs import Construct

from hyperpod_dpd.derive.operator_endpoint import OPERATOR_NAMESPACE
from hyperpod_dpd.evidence.benchmark.settings import Settings
from hyperpod_dpd.evidence.benchmark_plan import BenchmarkPlan, benchmark_settings
from hyperpod_dpd.serving import names
from hyperpod_dpd.serving.bindings import Binding, placeholders
from hyperpod_dpd.serving.flows import (
    ANYWHERE,
    POD_IDENTITY_ADDRESS,
    Addresses,
    Flow,
    ForeignPods,
    Pods,
    Ports,
)
from hyperpod_dpd.serving.images import pulled
from hyperpod_dpd.serving.names import Component
from hyperpod_dpd.serving.network_policies import NetworkPolicies
from hyperpod_dpd.serving.objects import api_object, leave_out, metadata
from hyperpod_dpd.serving.pod import Container, Volume, config_map, empty_dir, pod_spec
from hyperpod_dpd.serving.profile import Profile
from hyperpod_dpd.serving.render import document
from hyperpod_dpd.serving.router import USER_ID, off_gpu_nodes
from hyperpod_dpd.serving.router_arguments import API_KEYS_DIRECTORY
from hyperpod_dpd.serving.secrets import API_KEYS_SECRET
from hyperpod_dpd.spec import Deployment

SERVICE_ACCOUNT: Final = Component.BENCHMARK.value
"""ServiceAccount of the job; EKS Pod Identity lets it read the tokenizer and write results."""

SETTINGS_FILE: Final = "benchmark.json"
CPUS: Final = 2
MEMORY_GIB: Final = 4
"""transformers, pandas and matplotlib take about one."""

DEADLINE_HOURS: Final = 6
KEPT_DAYS: Final = 7
"""How long the Job and its log stay on the cluster; the result is in S3."""

_DNS: Final = ForeignPods(namespace="kube-system", labels=(("k8s-app", "kube-dns"),))


def job_name(profile: Profile) -> str:
    """Return the name of the Job that measures `profile`."""
    return f"{Component.BENCHMARK.value}-{profile.value}"


def render_benchmark(deployment: Deployment, profile: Profile, plan: BenchmarkPlan | None = None) -> str:
    """Return the manifests of the benchmark of `profile`, ready for `dpd bind`.

    Raises:
        NotMeasurableError: no prompt would be disaggregated, or the profile cannot be deployed.
        UnresolvedError: something that the deployment names does not exist or does not go together.
        UndatedPriceError: a price in the deployment has no ISO date.
    """
    settings = benchmark_settings(deployment, profile, plan or BenchmarkPlan())
    chart = Chart(App(), Component.BENCHMARK.value, disable_resource_name_hashes=True)
    BenchmarkJob(chart, "job", deployment=deployment, profile=profile, settings=settings)
    objects: list[dict[str, Any]] = chart.to_json()
    bound = ", ".join(f"${{dpd:{name}}}" for name in sorted(set(placeholders(objects))))
    head = (
        f"# The benchmark of deployment `{deployment.name}`, profile `{profile}`, by `dpd benchmark`.\n"
        f"# `dpd bind` fills {bound}.\n"
    )
    return head + "".join(document(entry) for entry in objects)


class BenchmarkJob(Construct):
    """Job, its programs and settings, its identity, and the connections that it may open."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        deployment: Deployment,
        profile: Profile,
        settings: Settings,
    ) -> None:
        """Create the objects.

        Args:
            scope: chart that takes the objects.
            construct_id: id of this construct in `scope`.
            deployment: the deployment.
            profile: which of its profiles is on the cluster.
            settings: what is measured.
        """
        super().__init__(scope, construct_id)
        self._deployment = deployment
        self._profile = profile
        self._namespace = names.system_namespace(deployment)
        self._labels = names.labels(deployment, Component.BENCHMARK)
        kplus.ServiceAccount(self, "account", metadata=self._metadata(SERVICE_ACCOUNT), automount_token=False)
        config = kplus.ConfigMap(
            self,
            "settings",
            metadata=self._metadata(job_name(profile)),
            data={SETTINGS_FILE: settings.as_json()},
        )
        leave_out(config, "/immutable")
        NetworkPolicies(
            self, "policies", deployment=deployment, flows=_flows(deployment, profile), namespaces={}
        )
        api_object(
            self,
            "job",
            api_version="batch/v1",
            kind="Job",
            name=job_name(profile),
            namespace=self._namespace,
            labels=self._labels,
            spec={
                # half a benchmark more is another load, and another result
                "backoffLimit": 0,
                "activeDeadlineSeconds": DEADLINE_HOURS * 3600,
                "ttlSecondsAfterFinished": KEPT_DAYS * 86400,
                "template": {"metadata": {"labels": self._labels}, "spec": self._pod(settings)},
            },
        )

    def _metadata(self, name: str) -> Any:
        return metadata(name, namespace=self._namespace, labels=self._labels)

    def _pod(self, settings: Settings) -> dict[str, Any]:
        volumes = [
            Volume(
                name="settings",
                path=names.CONFIG_DIRECTORY,
                source=config_map(job_name(self._profile)),
                read_only=True,
            ),
            Volume(name="tmp", path="/tmp", source=empty_dir(size_gib=2)),  # noqa: S108 -- the pod's own
        ]
        if settings.api_keys_file is not None:
            keys = {"secret": {"secretName": API_KEYS_SECRET}}
            volumes.append(Volume(name="api-keys", path=API_KEYS_DIRECTORY, source=keys, read_only=True))
        memory = f"{MEMORY_GIB}Gi"
        given = self._deployment.platform.images.benchmark
        container = Container(
            name="benchmark",
            image=pulled(given, self._deployment) if given else Binding.BENCHMARK_IMAGE.placeholder,
            command=("python", "-m", "hyperpod_dpd.evidence.benchmark"),
            arguments=(f"{names.CONFIG_DIRECTORY}/{SETTINGS_FILE}",),
            # no limit of CPU: a load generator that is throttled measures itself
            resources={"requests": {"cpu": CPUS, "memory": memory}, "limits": {"memory": memory}},
            volumes=tuple(volumes),
        )
        return {
            "restartPolicy": "Never",
            **pod_spec(
                service_account=SERVICE_ACCOUNT,
                api_token=False,
                containers=(container,),
                volumes=volumes,
                grace_seconds=30,
                affinity=_affinity(self._deployment),
                user=USER_ID,
            ),
        }


def _affinity(deployment: Deployment) -> dict[str, Any]:
    """Keep the job off the GPU nodes, whose workers it measures, and away from the router where it can be."""
    router = {
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {"matchLabels": names.selector(deployment, Component.ROUTER)},
    }
    return {
        **off_gpu_nodes(deployment),
        "podAntiAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "podAffinityTerm": router}]
        },
    }


def _flows(deployment: Deployment, profile: Profile) -> tuple[Flow, ...]:
    job = Pods(namespace=names.system_namespace(deployment), component=Component.BENCHMARK)
    if profile.backend == "operator":
        router: Pods | ForeignPods = ForeignPods(namespace=OPERATOR_NAMESPACE)
        # a policy sees the pod's port and not the Service's, and AWS does not say which that is
        ports = (Ports(first=1, last=65535),)
    else:
        router = Pods(namespace=names.system_namespace(deployment), component=Component.ROUTER)
        ports = (Ports.one(names.ROUTER_PORT),)
    return (
        Flow(name="dns", source=job, destination=_DNS, ports=(Ports.one(53, "UDP"), Ports.one(53))),
        Flow(name="requests", source=job, destination=router, ports=ports),
        Flow(
            name="pod-identity",
            source=job,
            destination=Addresses(cidrs=(POD_IDENTITY_ADDRESS,)),
            ports=(Ports.one(80),),
        ),
        # S3 and the Hugging Face Hub have public addresses, which change
        Flow(
            name="tokenizer and results",
            source=job,
            destination=Addresses(cidrs=(ANYWHERE,), excluded=deployment.network.vpc_cidrs),
            ports=(Ports.one(443),),
        ),
    )
