"""Draw `docs/diagrams/`: the real construct tree, and who may talk to whom as rendered NetworkPolicies say it.

Positions are fixed and what stands there is read, so a picture never shows what is not there. A peer of a policy that has no
position is an error, never left out.
"""

import json
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import yaml

from hyperpod_dpd.spec.load import load
from stacks.build import build

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "diagrams"
DEPLOYMENT = ROOT / "deployments" / "llama-3.3-70b-p5.yaml"
PROFILE = ROOT / "manifests" / "rendered" / "llama-3-3-70b-p5" / "self-managed"

INK, QUIET, LINE, PAPER, SHADE, BLUE, GREEN = (
    "#1b1f24",
    "#57606a",
    "#8c959f",
    "#ffffff",
    "#f6f8fa",
    "#0550ae",
    "#116329",
)


def main() -> int:
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / "constructs.svg").write_text(constructs(), encoding="utf-8")
    (FOLDER / "flows.svg").write_text(flows(), encoding="utf-8")
    return 0


# -- the construct tree -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A construct directly below a stack."""

    name: str
    resources: Counter[str]


COLUMN, ROW, TOP, PAD = 262, 42, 96, 12
HELPER = "helper functions of CDK"
_LAST = (HELPER, "Parameters")


def constructs() -> str:
    """Return a picture of every stack of the default deployment with its constructs and what they create."""
    deployment = load(DEPLOYMENT).deployment
    with tempfile.TemporaryDirectory() as folder:
        context = json.loads((ROOT / "cdk.json").read_text(encoding="utf-8"))["context"]
        app = cdk.App(outdir=folder, context={**context, "aws:cdk:enable-path-metadata": True})
        stacks = build(app, deployment).all
        assembly = app.synth()
        drawn = {
            stack.node.id.removeprefix(f"{deployment.name}-"): _parts(
                assembly.get_stack_by_name(stack.stack_name).template
            )
            for stack in stacks
        }
    return _tree_picture(drawn)


def _parts(template: Mapping[str, Any]) -> list[Part]:
    """Return the constructs of a stack by the paths of its resources; a construct that is nearly all by its parts."""
    paths = [
        (resource["Metadata"]["aws:cdk:path"].split("/")[1:], resource["Type"])
        for resource in template["Resources"].values()
    ]
    large = {name for name, count in Counter(path[0] for path, _ in paths).items() if count > len(paths) / 2}
    found: dict[str, Counter[str]] = {}
    for path, kind in paths:
        name = path[1] if path[0] in large else path[0]
        shown = (
            HELPER if re.match(r"Custom::|AWS[0-9a-f]{30,}|Custom[A-Z0-9]|AWSCDK|BucketNotif", name) else name
        )
        found.setdefault(shown, Counter())[kind.removeprefix("AWS::").replace("::", " ")] += 1
    parts = [Part(name=name, resources=resources) for name, resources in found.items()]
    return sorted(parts, key=lambda part: part.name in _LAST)


def _tree_picture(stacks: Mapping[str, list[Part]]) -> str:
    width = len(stacks) * COLUMN + PAD
    height = TOP + max(len(parts) for parts in stacks.values()) * (ROW + 6) + 2 * PAD
    body = [
        text(PAD, 30, "Stacks and constructs of the default deployment", size=19, weight="bold"),
        text(
            PAD,
            52,
            "left to right in the order of deployment; counts are CloudFormation resources, without the one that CDK adds about itself",
            fill=QUIET,
        ),
    ]
    for column, (name, parts) in enumerate(stacks.items()):
        x = PAD + column * COLUMN
        total = sum(sum(part.resources.values()) for part in parts)
        body.append(box(x, TOP - 28, COLUMN - PAD, height - TOP + 16, fill=SHADE))
        body.append(text(x + 10, TOP - 8, name, weight="bold", size=15, fill=BLUE))
        body.append(text(x + COLUMN - PAD - 10, TOP - 8, f"{total} resources", anchor="end", fill=QUIET))
        for row, part in enumerate(parts):
            y = TOP + 6 + row * (ROW + 6)
            body.append(box(x + 8, y, COLUMN - PAD - 16, ROW))
            body.append(text(x + 16, y + 17, part.name, weight="bold"))
            body.append(text(x + 16, y + 34, _listed(part.resources), size=11, fill=QUIET))
    return picture(width, height, "Stacks and constructs of the default deployment", body)


def _listed(resources: Counter[str]) -> str:
    most = resources.most_common()
    shown = ", ".join(f"{kind.split(' ')[-1]}{f' ×{count}' if count > 1 else ''}" for kind, count in most[:2])
    rest = sum(count for _, count in most[2:])
    said = f"{shown} and {rest} more" if rest else shown
    return said if len(said) <= 34 else f"{said[:33]}…"


# -- who may talk to whom -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a peer stands."""

    x: int
    y: int
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """Connections that policies let through."""

    source: str
    destination: str
    ports: tuple[str, ...]


BOX_WIDTH, BOX_HEIGHT = 196, 74
POSITIONS = {
    "clients": (20, 120),
    "proof": (20, 372),
    "benchmark": (20, 500),
    "observability": (392, 500),
    "router": (392, 140),
    "prefill": (774, 120),
    "decode": (774, 372),
}
SHIFTS = {
    ("prefill", "router"): (0, 24, 0.5),
    ("prefill", "decode"): (-66, 0, 0.5),
    ("observability", "prefill"): (0, 0, 0.72),
    ("router", "decode"): (0, 0, 0.3),
    ("proof", "router"): (0, 0, 0.4),
    ("proof", "prefill"): (0, 0, 0.45),
    ("proof", "decode"): (0, 0, 0.3),
    ("observability", "router"): (0, 0, 0.25),
}
"""Pixels to the right and down, and how far along its label is, of arrows that would hide another."""


def flows() -> str:
    """Return a picture of the connections that the NetworkPolicies of the default deployment allow between pods."""
    documents = [
        entry
        for file in sorted(PROFILE.glob("*.yaml"))
        for entry in yaml.safe_load_all(file.read_text(encoding="utf-8"))
        if entry
    ]
    edges = sorted(set(_edges(documents)), key=lambda edge: (edge.source, edge.destination))
    pods = {name: tuple(lines) for name, lines in _pods(documents)}
    return _flow_picture(_merged(edges), pods)


def _edges(documents: Iterable[Mapping[str, Any]]) -> Iterator[Edge]:
    for policy in documents:
        if policy["kind"] != "NetworkPolicy":
            continue
        spec = policy["spec"]
        destination = spec["podSelector"].get("matchLabels", {}).get("app.kubernetes.io/component")
        for rule in spec.get("ingress", ()):
            ports = tuple(_port(port) for port in rule.get("ports", ()))
            for peer in rule.get("from", ()):
                source = _peer(peer)
                if destination and source:
                    yield Edge(source=source, destination=destination, ports=ports)


def _port(port: Mapping[str, Any]) -> str:
    return f"{port['port']}–{port['endPort']}" if "endPort" in port else str(port["port"])


def _peer(peer: Mapping[str, Any]) -> str:
    if "ipBlock" in peer:
        return "clients"
    component = peer.get("podSelector", {}).get("matchLabels", {}).get("app.kubernetes.io/component")
    namespace = (
        peer.get("namespaceSelector", {}).get("matchLabels", {}).get("kubernetes.io/metadata.name", "")
    )
    if component:
        name = str(component)
    elif namespace.endswith("observability"):
        name = "observability"
    elif namespace == "":
        # every pod of the router's own namespace: the jobs, and whoever the deployment lets in
        name = "clients"
    else:
        name = namespace
    if name not in POSITIONS:
        raise SystemExit(
            f"error: `{name}` has no position in the picture of flows. help: add it to `POSITIONS`"
        )
    return name


def _merged(edges: Iterable[Edge]) -> list[Edge]:
    ports: dict[tuple[str, str], list[str]] = {}
    for edge in edges:
        ports.setdefault((edge.source, edge.destination), []).extend(edge.ports)
    return [
        Edge(source=source, destination=destination, ports=tuple(dict.fromkeys(each)))
        for (source, destination), each in ports.items()
    ]


def _pods(documents: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, list[str]]]:
    for entry in documents:
        if entry["kind"] not in {"Deployment", "Job"}:
            continue
        template = entry["spec"]["template"]
        component = template["metadata"]["labels"]["app.kubernetes.io/component"]
        limits = template["spec"]["containers"][0]["resources"].get("limits", {})
        gpus, devices = limits.get("nvidia.com/gpu"), limits.get("vpc.amazonaws.com/efa")
        lines = [
            f"{entry['kind']}" + (f" ×{entry['spec']['replicas']}" if "replicas" in entry["spec"] else "")
        ]
        if gpus:
            lines.append(f"{gpus} GPUs, {devices} EFA devices")
        yield component, lines


def _flow_picture(edges: list[Edge], pods: Mapping[str, tuple[str, ...]]) -> str:
    named = {name for edge in edges for name in (edge.source, edge.destination)} | set(pods)
    width, height = 1010, 600
    body = [
        text(20, 30, "Who may talk to whom", size=19, weight="bold"),
        text(
            20,
            52,
            "TCP connections that the rendered NetworkPolicies allow between pods; everything else is denied",
            fill=QUIET,
        ),
        box(372, 84, 236, 156, fill=SHADE),
        box(744, 84, 256, 392, fill=SHADE),
        text(382, 104, "namespace …-system", size=12, fill=QUIET),
        text(754, 104, "namespace …-workers", size=12, fill=QUIET),
    ]
    for edge in edges:
        body += _arrow(edge)
    if {"prefill", "decode"} <= pods.keys():
        body += _efa()
    for name in sorted(named):
        body += _node(name, pods.get(name, ()))
    return picture(width, height, "Who may talk to whom in the self-managed profile", body)


def _node(name: str, lines: tuple[str, ...]) -> list[str]:
    x, y = POSITIONS[name]
    title = {"clients": "clients", "observability": "metrics collector"}.get(name, name)
    extra = lines or {
        "clients": ("pods that the file names",),
        "observability": ("in a namespace of its own",),
        "proof": ("after each deployment",),
    }.get(name, ())
    return [
        box(x, y, BOX_WIDTH, BOX_HEIGHT, stroke=INK),
        text(x + BOX_WIDTH / 2, y + 27, title, weight="bold", size=15, anchor="middle"),
        *(
            text(x + BOX_WIDTH / 2, y + 46 + 16 * index, line, size=12, fill=QUIET, anchor="middle")
            for index, line in enumerate(extra)
        ),
    ]


def _arrow(edge: Edge) -> list[str]:
    (x1, y1), (x2, y2) = (_centre(edge.source), _centre(edge.destination))
    start, end = _edge_point(x1, y1, x2, y2), _edge_point(x2, y2, x1, y1)
    # two connections between the same boxes stand beside each other
    across, down, along = SHIFTS.get((edge.source, edge.destination), (0, 0, 0.5))
    x, y = start[0] + (end[0] - start[0]) * along, start[1] + (end[1] - start[1]) * along
    return [
        (
            f'<line x1="{start[0] + across:.0f}" y1="{start[1] + down:.0f}" x2="{end[0] + across:.0f}" '
            f'y2="{end[1] + down:.0f}" stroke="{LINE}" stroke-width="1.6" marker-end="url(#tip)"/>'
        ),
        *(label(x + across, y + down + 4 + 18 * index, port) for index, port in enumerate(edge.ports)),
    ]


def _centre(name: str) -> tuple[float, float]:
    x, y = POSITIONS[name]
    return x + BOX_WIDTH / 2, y + BOX_HEIGHT / 2


def _edge_point(x1: float, y1: float, x2: float, y2: float) -> tuple[float, float]:
    """Return where the line from the middle of one box to the other leaves the first box."""
    dx, dy = x2 - x1, y2 - y1
    scale = min(
        BOX_WIDTH / 2 / abs(dx) if dx else float("inf"), BOX_HEIGHT / 2 / abs(dy) if dy else float("inf")
    )
    return x1 + dx * scale, y1 + dy * scale


def _efa() -> list[str]:
    x = POSITIONS["prefill"][0] + 76
    top, bottom = POSITIONS["prefill"][1] + BOX_HEIGHT, POSITIONS["decode"][1]
    return [
        f'<line x1="{x}" y1="{top}" x2="{x}" y2="{bottom}" stroke="{GREEN}" stroke-width="5" marker-end="url(#efa)"/>',
        text(
            x + 12,
            (top + bottom) / 2 - 4,
            "KV cache over EFA:",
            size=12,
            fill=GREEN,
            weight="bold",
        ),
        text(x + 12, (top + bottom) / 2 + 12, "no policy sees it, the", size=11, fill=GREEN),
        text(x + 12, (top + bottom) / 2 + 26, "EFA group limits it", size=11, fill=GREEN),
    ]


# -- drawing ------------------------------------------------------------------------------------------------------


def picture(width: float, height: float, title: str, body: Iterable[str]) -> str:
    """Return an SVG with a title that screen readers read."""
    return (
        "\n".join(
            (
                (
                    f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" '
                    f'height="{height:g}" role="img" font-family="system-ui, sans-serif">'
                ),
                f"<title>{escape(title)}</title>",
                "<defs>",
                f'<marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto"><path d="M0 0L8 4L0 8z" fill="{LINE}"/></marker>',
                f'<marker id="efa" viewBox="0 0 8 8" refX="6" refY="4" markerWidth="3" markerHeight="3" orient="auto"><path d="M0 0L8 4L0 8z" fill="{GREEN}"/></marker>',
                "</defs>",
                f'<rect width="{width:g}" height="{height:g}" fill="{PAPER}"/>',
                *body,
                "</svg>",
            )
        )
        + "\n"
    )


def box(
    x: float, y: float, width: float, height: float, *, fill: str = PAPER, stroke: str = "#d0d7de"
) -> str:
    return f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="6" fill="{fill}" stroke="{stroke}"/>'


def text(
    x: float,
    y: float,
    words: str,
    *,
    size: int = 13,
    weight: str = "normal",
    fill: str = INK,
    anchor: str = "start",
) -> str:
    return (
        f'<text x="{x:g}" y="{y:g}" font-size="{size}" font-weight="{weight}" fill="{fill}" text-anchor="{anchor}">'
        f"{escape(words)}</text>"
    )


def label(x: float, y: float, words: str) -> str:
    width = 7 * len(words) + 8
    return (
        f'<rect x="{x - width / 2:.0f}" y="{y - 13:.0f}" width="{width}" height="18" rx="4" fill="{PAPER}" opacity="0.9"/>'
        + text(round(x), round(y), words, size=12, anchor="middle")
    )


if __name__ == "__main__":
    sys.exit(main())
