"""DPD-NET-012: a closed network fetches nothing from the internet."""

from collections.abc import Iterator

from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.spec import Deployment


@deployment_rule(
    "DPD-NET-012",
    severity=Severity.ERROR,
    title="a closed network fetches chart, model and images from inside AWS",
    sources=("awsome-distributed-ai TF closed-network.tfvars", "awslabs/awsome-distributed-ai #186"),
    facts=("P4",),
)
def closed_network_fetches_nothing(deployment: Deployment) -> Iterator[Problem]:
    """What comes from GitHub, the Hugging Face Hub or a public registry times out behind a closed network."""
    if deployment.network.egress != "closed":
        return
    if deployment.cluster.existing is None and deployment.cluster.dependencies_chart.source == "git":
        yield _outside(
            "cluster.dependencies_chart.source",
            "the dependencies chart comes from GitHub",
            "`source: git`",
            "put an archive of the chart's commit into a bucket and set `source: s3`, `s3_uri` and `sha256`",
        )
    if deployment.model.source.type == "huggingface":
        yield _outside(
            "model.source.type",
            "the model comes from the Hugging Face Hub",
            "`type: huggingface`",
            "import the model once and set `source: {type: s3, bucket: …}`",
        )
    if not deployment.platform.images.mirror_public_images:
        yield _outside(
            "platform.images.mirror_public_images",
            "public images come from public registries",
            "`mirror_public_images: false`",
            "set `platform.images.mirror_public_images: true`",
        )


def _outside(path: str, says: str, given: str, fix: str) -> Problem:
    return Problem(path=path, says=f"{says}, which a closed network does not reach", given=given, fix=fix)
