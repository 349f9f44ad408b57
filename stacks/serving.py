"""The serving stack."""

import hashlib
from collections.abc import Mapping
from typing import Final

import aws_cdk as cdk
from aws_cdk import aws_eks_v2 as eks
from constructs import Construct, IDependable

from hyperpod_dpd.derive.operator_endpoint import endpoint_name
from hyperpod_dpd.evidence.proof_job import PROVEN, render_proof
from hyperpod_dpd.readiness import Gone, Wait
from hyperpod_dpd.serving import access, names
from hyperpod_dpd.serving.bindings import Binding
from hyperpod_dpd.serving.names import Component
from hyperpod_dpd.serving.profile import Profile, profile_of
from hyperpod_dpd.serving.release import Release
from hyperpod_dpd.serving.render import Rendering, render
from hyperpod_dpd.serving.rollouts import requirements_of, rollout_seconds
from hyperpod_dpd.spec import Deployment
from stacks.platform import PlatformStack

_BALANCER_MINUTES: Final = 10
"""Time for a load balancer to get its name once the router runs; the provider's function ends after 15."""


class ServingStack(cdk.Stack):
    """Workers, router and policies as a Helm release; then the wait for them, then the proof.

    Attributes:
        profile: what is installed.
        rendering: its objects.
        most_seconds: after that many seconds of waiting the stack has failed.
        release: the release of the rendering, without the proof.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        deployment: Deployment,
        platform: PlatformStack,
        profile: Profile | None = None,
    ) -> None:
        """Install `deployment` on the cluster of `platform`, in the profile of its backend unless told otherwise."""
        super().__init__(
            scope,
            construct_id,
            env=cdk.Environment(account=deployment.account, region=deployment.region),
            description=f"Endpoint of {deployment.name}: disaggregated serving on SageMaker HyperPod",
        )
        self._deployment = deployment
        self._platform = platform
        # nodes, add-ons, secrets, weights and images are all waited for there
        self.add_stack_dependency(platform)
        self.profile = profile or profile_of(deployment)
        self.most_seconds = 0
        self.rendering = render(deployment, self.profile)
        self.release, self._ready = self._installed("Release", deployment.name, self.rendering)
        self.release.chart.node.add_dependency(self._gone().resource)
        if self.profile in PROVEN:
            self._prove()
        self._outputs()

    def _installed(self, construct_id: str, name: str, rendering: Rendering) -> tuple[Release, IDependable]:
        """Install `rendering` and wait until it runs."""
        within_seconds = rollout_seconds(rendering)
        self.most_seconds += within_seconds
        release = Release(
            self,
            construct_id,
            cluster=self._platform.cluster,
            rendering=rendering,
            name=name,
            bindings=self._platform.bindings_in(self),
        )
        wait = Wait(
            self,
            f"{construct_id}Runs",
            readiness=self._platform.readiness,
            requirements=requirements_of(rendering),
            within=cdk.Duration.seconds(within_seconds),
            # images that are built anew are other pods under the same names
            revision=self._revision(release),
            needs=[release.chart],
        )
        return release, wait.ready

    def _revision(self, release: Release) -> str:
        return _digest(release.asset_hash, self._platform.revision)

    def _prove(self) -> None:
        """Fail unless the workers that run hand a KV cache over; another Job for whatever was installed anew."""
        job = render_proof(self._deployment, self.profile, revision=self._revision(self.release))
        proof, _ = self._installed("Proof", f"{self._deployment.name}-proof", job)
        proof.chart.node.add_dependency(self._ready)

    def _gone(self) -> Gone:
        """Return what is deleted after the release, and only once its namespaces are gone.

        An Ingress and an InferenceEndpointConfig hold their namespace until their controllers have taken load balancers
        and network interfaces away. The controllers go with the platform stack, the VPC with the network stack: neither
        may go first.
        """
        return Gone(
            self,
            "Gone",
            readiness=self._platform.readiness,
            namespaces=[
                names.system_namespace(self._deployment),
                names.workers_namespace(self._deployment),
            ],
        )

    def _outputs(self) -> None:
        deployment, profile = self._deployment, self.profile
        outputs = {
            "InClusterUrl": (
                "Base URL of the OpenAI API for pods of the cluster",
                access.in_cluster_url(deployment, profile),
            ),
            "KubeconfigCommand": (
                "Lets kubectl know the cluster",
                access.kubeconfig_command(deployment),
            ),
            "ForwardCommand": (
                "Brings the endpoint to port 8081 of the machine that runs it",
                access.forward_command(deployment, profile),
            ),
            "TryCommand": ("Asks the forwarded endpoint which model it serves", access.try_command()),
            **self._endpoint(),
            **{
                binding.output_key: (f"Binding {binding.name}: {binding.meaning}", value)
                for binding, value in {**self.release.bindings, **self._of_jobs()}.items()
            },
        }
        for key, (description, value) in outputs.items():
            cdk.CfnOutput(self, key, description=description, value=value)

    def _of_jobs(self) -> Mapping[Binding, str]:
        """Return what `dpd bind` puts into the manifests of proof and benchmark."""
        known = self._platform.bindings_in(self)
        wanted = (
            Binding.PROOF_IMAGE,
            Binding.AMP_WORKSPACE_URL,
            Binding.BENCHMARK_IMAGE,
            Binding.MODEL_BUCKET,
            Binding.RESULTS_BUCKET,
        )
        return {binding: known[binding] for binding in wanted if binding in known}

    def _endpoint(self) -> dict[str, tuple[str, str]]:
        """Return the address outside of the cluster, where the deployment has one."""
        deployment = self._deployment
        if self.profile.backend == "operator":
            operator = deployment.serving.operator
            if not operator.registers_endpoint:
                return {}
            return {"Endpoint": ("Name of the SageMaker endpoint", endpoint_name(deployment))}
        if deployment.routing.load_balancer is None:
            return {}
        # the controller makes the load balancer while workers load; its name is not known before
        host = eks.KubernetesObjectValue(
            self,
            "EndpointHost",
            cluster=self._platform.cluster,
            object_type="ingress",
            object_name=Component.ROUTER.value,
            object_namespace=names.system_namespace(deployment),
            json_path=".status.loadBalancer.ingress[0].hostname",
            timeout=cdk.Duration.minutes(_BALANCER_MINUTES),
        )
        host.node.add_dependency(self._ready)
        return {
            "Endpoint": (
                "Base URL of the OpenAI API; point a name of the certificate at it",
                f"https://{host.value}/v1",
            )
        }


def _digest(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]
