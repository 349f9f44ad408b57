"""What comes before what in the stacks of a deployment, as CloudFormation will do it."""

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tests.support.synth import Synthesized

Node = tuple[str, str]
"""Part and logical id."""


@dataclass(frozen=True)
class Edge:
    """`later` waits for `earlier`."""

    later: Node
    earlier: Node
    explicit: bool
    """Whether it is a DependsOn or the order of two stacks, and no reference that cannot be left out."""


@dataclass(frozen=True)
class Order:
    """The resources of a deployment and what each waits for."""

    resources: Mapping[Node, Mapping[str, Any]]
    edges: frozenset[Edge]

    def find(self, part: str, resource_type: str, **properties: Any) -> list[Node]:
        """Return the resources of a type with these properties; a property's name ends in `_like` for a part of it."""
        return [
            node
            for node, body in self.resources.items()
            if node[0] == part
            and body["Type"] == resource_type
            and all(_fits(body, node, name, value) for name, value in properties.items())
        ]

    def waits(self, later: Node, earlier: Node, *, without: frozenset[Edge] = frozenset()) -> bool:
        """Tell whether `later` is made after `earlier`."""
        return self.path(later, earlier, without=without) is not None

    def path(
        self, later: Node, earlier: Node, *, without: frozenset[Edge] = frozenset()
    ) -> list[Edge] | None:
        """Return the edges from `later` back to `earlier`, None where there is no way."""
        by_node: dict[Node, list[Edge]] = {}
        for edge in self.edges:
            if edge not in without:
                by_node.setdefault(edge.later, []).append(edge)
        came: dict[Node, Edge] = {}
        queue = deque([later])
        while queue:
            node = queue.popleft()
            if node == earlier:
                back = []
                while node != later:
                    back.append(came[node])
                    node = came[node].later
                return back[::-1]
            for edge in by_node.get(node, ()):
                if edge.earlier not in came and edge.earlier != later:
                    came[edge.earlier] = edge
                    queue.append(edge.earlier)
        return None


def _fits(body: Mapping[str, Any], node: Node, name: str, value: Any) -> bool:
    if name == "id_like":
        return value in node[1]
    return bool(body.get("Properties", {}).get(name) == value)


def order(synthesized: Synthesized) -> Order:
    """Read the order out of the templates of a deployment."""
    resources = {
        (part, name): body
        for part, template in synthesized.templates.items()
        for name, body in template["Resources"].items()
    }
    edges = set()
    for node, body in resources.items():
        part = node[0]
        given = body.get("DependsOn", ())
        for name in [given] if isinstance(given, str) else given:
            edges.add(Edge(node, (part, name), explicit=True))
        for name in _references(body.get("Properties", {})):
            if (part, name) in resources:
                edges.add(Edge(node, (part, name), explicit=False))
    # every resource of a stack is made after every resource of the stacks that it needs
    for part, needed in synthesized.needs.items():
        for node in resources:
            if node[0] == part:
                edges.update(Edge(node, (other, "*"), explicit=True) for other in needed)
        edges.update(Edge((part, "*"), node, explicit=False) for node in resources if node[0] == part)
    return Order(resources, frozenset(edges))


def _references(value: Any) -> Iterator[str]:
    match value:
        case {"Ref": str(name)}:
            yield name
        case {"Fn::GetAtt": [str(name), *_]}:
            yield name
        case Mapping():
            for inner in value.values():
                yield from _references(inner)
        case list():
            for inner in value:
                yield from _references(inner)
