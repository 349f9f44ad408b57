"""What `scripts/dependencies.sh` is told: the catalog's pins as environment variables."""

from hyperpod_dpd.catalog import charts
from hyperpod_dpd.catalog.regions import region
from hyperpod_dpd.spec import DependenciesChart

_ARTIFACTS = {
    "HELM": charts.HELM,
    "KUBECTL": charts.KUBECTL,
    "NVIDIA_PLUGIN": charts.NVIDIA_PLUGIN,
    "EFA_PLUGIN": charts.EFA_PLUGIN,
}


def download_environment() -> dict[str, str]:
    """Return where chart and tools come from and what their bytes must be; enough for `dependencies.sh archive`."""
    row = charts.DEPENDENCIES_CHART
    environment = {
        "DPD_REPOSITORY": row.repository,
        "DPD_COMMIT": row.commit,
        "DPD_CHART_PATH": row.path,
    }
    for name, artifact in _ARTIFACTS.items():
        environment[f"DPD_{name}_URL"] = artifact.url
        environment[f"DPD_{name}_SHA256"] = artifact.sha256
    return environment


def build_environment(
    *, region_name: str, cluster_name: str, source: DependenciesChart | None = None
) -> dict[str, str]:
    """Return the environment of an installation into the EKS cluster `cluster_name`.

    Raises:
        UnknownCatalogEntryError: no health-monitoring agent is published for the region.
        ValueError: `source: s3` without the archive's address or digest.
    """
    source = source or DependenciesChart()
    row = charts.DEPENDENCIES_CHART
    account = region(region_name).health_agent_account
    environment = download_environment() | {
        "DPD_SOURCE": source.source,
        "DPD_REGION": region_name,
        "DPD_CLUSTER": cluster_name,
        "DPD_RELEASE": row.release,
        "DPD_NAMESPACE": row.namespace,
        "DPD_HEALTH_AGENT_IMAGE": charts.health_agent_image(region=region_name, account=account),
        "DPD_EFA_PLUGIN_REPOSITORY": charts.efa_plugin_repository(region_name),
    }
    if source.source == "s3":
        if source.s3_uri is None or source.sha256 is None:
            raise ValueError(
                "`cluster.dependencies_chart.source: s3` needs the archive's address and digest: given "
                f"`s3_uri: {source.s3_uri}`, `sha256: {source.sha256}`. help: pack it with `make dependencies-archive`"
            )
        environment |= {"DPD_ARCHIVE_URI": source.s3_uri, "DPD_ARCHIVE_SHA256": source.sha256}
    return environment
