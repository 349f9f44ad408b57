"""Only the Kubernetes objects: no AWS CDK, no account. Point Argo CD or Flux at the folder, or pipe it to kubectl."""

import sys
from pathlib import Path

import cdk8s
import cdk8s_plus_27 as kplus

from hyperpod_dpd import Binding, Profile, ProfileCharts, bind, load, refuse_unless_valid

DEPLOYMENT = Path(__file__).parents[1] / "deployments/llama-3.3-70b-p5.yaml"

VALUES = {
    Binding.WORKER_IMAGE: f"123456789012.dkr.ecr.us-east-1.amazonaws.com/dpd-worker@sha256:{'1' * 64}",
    Binding.WORKER_IMAGE_ID: "1" * 12,
    Binding.ROUTER_IMAGE: f"123456789012.dkr.ecr.us-east-1.amazonaws.com/dpd-router@sha256:{'2' * 64}",
    Binding.PROOF_IMAGE: f"123456789012.dkr.ecr.us-east-1.amazonaws.com/dpd-proof@sha256:{'3' * 64}",
    Binding.MODEL_BUCKET: "my-weights",
}
"""What only your account knows: the images that you built and the bucket that holds the weights."""


def main(folder: Path) -> None:
    """Write the charts of the deployment, and one of ours beside them, with every binding filled."""
    deployment = load(DEPLOYMENT).deployment
    refuse_unless_valid(deployment)
    app = cdk8s.App(outdir=str(folder), yaml_output_type=cdk8s.YamlOutputType.FILE_PER_CHART)
    ProfileCharts(app, deployment=deployment, profile=Profile.SELF_MANAGED)
    ours = cdk8s.Chart(app, "ours", namespace=f"{deployment.name}-system")
    kplus.ConfigMap(ours, "contact", data={"on-call": "ml-platform@example.com"})
    app.synth()
    for file in folder.glob("*.yaml"):
        file.write_text(bind(file.read_text(encoding="utf-8"), VALUES), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "build/manifests"))
