"""A rendering installed on a cluster as a Helm release."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import aws_cdk as cdk
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_s3_assets as assets
from constructs import Construct, IDependable

from hyperpod_dpd.serving.bindings import Binding, BindingError
from hyperpod_dpd.serving.helm_chart import RELEASE_NAME_LENGTH, required_bindings, values, write_chart
from hyperpod_dpd.serving.render import Rendering
from hyperpod_dpd.spec.arguments import checked
from hyperpod_dpd.spec.forms import ObjectName

RELEASE_NAMESPACE: Final = "default"
"""Where Helm remembers its releases. The chart brings its own namespaces, which Helm would refuse to own if it had
made one of them for the release."""

_TIMEOUT_MINUTES: Final = 10
"""Time for the API server to take every object. Nothing waits for pods: the provider's function ends after 15 minutes,
and weights take longer than that to load."""


class Release(Construct):
    """Installs, upgrades and removes what a rendering puts on a cluster.

    Helm applies kinds in their order, takes away what a new rendering no longer has, and refuses an object that belongs
    to somebody else. It has succeeded when the API server has accepted every object, not when pods run.

    Attributes:
        chart: the release; whatever needs its objects depends on it.
        bindings: the values it was given, by binding.
        asset_hash: digest of the chart, which changes with any of its objects.
    """

    chart: eks.HelmChart
    bindings: Mapping[Binding, str]
    asset_hash: str

    @checked
    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        cluster: eks.ICluster,
        rendering: Rendering,
        name: ObjectName,
        bindings: Mapping[Binding, str],
        needs: Sequence[IDependable] = (),
    ) -> None:
        """Install `rendering` on `cluster`.

        Args:
            scope: where the construct lives.
            construct_id: its id.
            cluster: EKS cluster with a kubectl provider, whose function runs Helm.
            rendering: what is installed.
            name: name of the release, which tells it from others on the cluster. Another name is another release.
            bindings: a value for every binding of the rendering; more are left out. Tokens are fine.
            needs: what must be there before, such as `Kubectl.ready`: without the way in the first chart is refused.

        Raises:
            BindingError: a binding has no value or does not exist; all of them at once.
            ValueError: Helm allows no release of that name.
        """
        super().__init__(scope, construct_id)
        if len(name) > RELEASE_NAME_LENGTH:
            raise ValueError(
                f"the name of the release is too long: given `{name}`, {len(name)} characters, "
                f"limit {RELEASE_NAME_LENGTH}. help: give the deployment a shorter name"
            )
        self.bindings = _chosen(rendering, bindings)
        asset = self._asset(rendering, name)
        self.asset_hash = asset.asset_hash
        self.chart = eks.HelmChart(
            self,
            "Chart",
            cluster=cluster,
            chart_asset=asset,
            release=name,
            namespace=RELEASE_NAMESPACE,
            create_namespace=False,
            values=values(self.bindings),
            wait=False,
            timeout=cdk.Duration.minutes(_TIMEOUT_MINUTES),
        )
        self.chart.node.add_dependency(*needs)

    def _asset(self, rendering: Rendering, name: str) -> assets.Asset:
        # the asset is copied into the cloud assembly at once
        with TemporaryDirectory() as folder:
            write_chart(rendering, Path(folder), name=name)
            return assets.Asset(self, "Asset", path=folder)


def _chosen(rendering: Rendering, bindings: Mapping[Binding, str]) -> dict[Binding, str]:
    needed = required_bindings(rendering)
    if missing := [binding for binding in needed if binding not in bindings]:
        raise BindingError(
            tuple(
                f"`{binding.name}` has no value: {binding.meaning}. help: give it in the deployment, or let a "
                "stack make it"
                for binding in missing
            )
        )
    chosen = {binding: bindings[binding] for binding in needed}
    # what is no token is known already: refused now and not by Helm in the middle of a deployment
    problems = [
        problem
        for binding, text in chosen.items()
        if not cdk.Token.is_unresolved(text) and (problem := binding.refuse(text)) is not None
    ]
    if problems:
        raise BindingError(tuple(problems))
    return chosen
