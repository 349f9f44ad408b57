"""From workloads to pods, containers and their environment."""

import re
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Final

from hyperpod_dpd.lint.command import Arguments, Token, arguments, programs, words
from hyperpod_dpd.lint.model import Container, Fault, KubernetesObject, Pod, Variable, fault, labels_of
from hyperpod_dpd.lint.node import Node
from hyperpod_dpd.lint.objects import WORKLOADS

VLLM: Final = "vllm"
_PROGRAMS: Final = {
    "disagg_proxy_server.py": "lmcache-proxy",
    "dpd-router": "dpd-router",
    "dpd_router": "dpd-router",
    "dynamo.frontend": "dynamo",
    "dynamo.vllm": "dynamo",
    "vllm-router": "vllm-router",
    "vllm.entrypoints.api_server": VLLM,
    "vllm.entrypoints.openai.api_server": VLLM,
    "vllm_router.app": "vllm-router",
}
"""What a word of a command line starts, by its last part."""

_SHELL_VARIABLE: Final = re.compile(r"\$(?:\{([A-Za-z_]\w*)\}|([A-Za-z_]\w*))")
_ASSIGNMENT: Final = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
_ENGINE_IMAGES: Final = ("lmcache/vllm-openai", "vllm/vllm-openai", "deep-learning-containers/vllm")


class Resolver:
    """Looks references up in the set, and remembers those that lead out of it."""

    def __init__(self, found: tuple[KubernetesObject, ...]) -> None:
        self._config_maps = {(each.namespace, each.name): each for each in found if each.kind == "ConfigMap"}
        self.unresolved: list[Fault] = []
        self.broken: list[Fault] = []
        """Files inside ConfigMaps that are no YAML."""

    def config_map(self, namespace: str, name: str | None) -> Mapping[str, Node] | None:
        """Return the data of a ConfigMap, or None when the set does not have it."""
        found = self._config_maps.get((namespace, name or ""))
        if found is None:
            return None
        data = found.node.get("data")
        return {} if data is None else data.pairs

    def missing(self, node: Node, what: str, fix: str) -> None:
        """Remember that `what` is not in the set."""
        self.unresolved.append(
            fault(
                node,
                says=f"{what} is not in what was given, so it was not looked at",
                given=f"`{node.shown()}`",
                fix=fix,
            )
        )


def pods(found: tuple[KubernetesObject, ...], resolver: Resolver) -> Iterator[Pod]:
    """Yield every pod that the workloads among `found` make."""
    for owner in found:
        if owner.kind in WORKLOADS:
            for template, replicas in _templates(owner):
                spec = template.get("spec")
                if spec is not None:
                    yield _pod(owner, template, spec, replicas, resolver)


def _templates(owner: KubernetesObject) -> Iterator[tuple[Node, int]]:
    node = owner.node
    given = node.get("spec", "replicas")
    replicas = 1 if given is None or given.number is None else given.number
    if owner.kind == "Pod":
        yield node, 1
        return
    if owner.kind != "LeaderWorkerSet":
        template = node.get("spec", "template")
        if template is not None:
            yield template, replicas
        return
    for key in ("leaderTemplate", "workerTemplate"):
        template = node.get("spec", "leaderWorkerTemplate", key)
        if template is not None:
            yield template, replicas


def _pod(owner: KubernetesObject, template: Node, spec: Node, replicas: int, resolver: Resolver) -> Pod:
    containers, first = spec.get("containers"), spec.get("initContainers")
    # an init container that always restarts is a sidecar
    sidecars = [
        node for node in (() if first is None else first.items) if node.text_at("restartPolicy") == "Always"
    ]
    made = tuple(
        _container(owner.namespace, node, resolver)
        for node in (*sidecars, *(() if containers is None else containers.items))
    )
    return Pod(
        owner=owner,
        node=spec,
        labels=labels_of(template.get("metadata", "labels")),
        replicas=replicas,
        containers=made,
    )


def _container(namespace: str, node: Node, resolver: Resolver) -> Container:
    environment = dict(variables(namespace, node, resolver))
    program, found = _program(node, environment)
    return Container(
        name=node.text_at("name") or "?",
        node=node,
        environment=environment,
        arguments=found,
        program=program,
    )


def variables(
    namespace: str, container: Node, resolver: Resolver, key: str = "env"
) -> Mapping[str, Variable]:
    """Return the environment of `container`, that of ConfigMaps in the set included."""
    found: dict[str, Variable] = {}
    sources = container.get("envFrom")
    for source in () if sources is None else sources.items:
        reference = source.get("configMapRef", "name")
        data = resolver.config_map(namespace, None if reference is None else reference.text)
        if data is None:
            resolver.missing(source, "the source of these variables", "give its ConfigMap as well")
            continue
        prefix = source.text_at("prefix") or ""
        for suffix, value in data.items():
            full = f"{prefix}{suffix}"
            found[full] = Variable(name=full, value=value.text, field=None, node=value)
    listed = container.get(key)
    for entry in () if listed is None else listed.items:
        name = entry.text_at("name")
        if name:
            found[name] = _variable(namespace, name, entry, resolver)
    return found


def _variable(namespace: str, name: str, entry: Node, resolver: Resolver) -> Variable:
    value = entry.get("value")
    if value is not None:
        return Variable(name=name, value=value.text, field=None, node=value)
    reference = entry.get("valueFrom", "configMapKeyRef")
    if reference is not None:
        data = resolver.config_map(namespace, reference.text_at("name"))
        held = None if data is None else data.get(reference.text_at("key") or "")
        if held is not None:
            return Variable(name=name, value=held.text, field=None, node=held)
        resolver.missing(entry, f"the value of `{name}`", "give its ConfigMap as well")
    return Variable(
        name=name, value=None, field=entry.text_at("valueFrom", "fieldRef", "fieldPath"), node=entry
    )


def _program(container: Node, environment: dict[str, Variable]) -> tuple[str, Arguments]:
    """Return what the container runs; variables that its script sets on the way are added to `environment`."""
    tokens = [
        _expanded(token, environment) for token in words(container.get("command"), container.get("args"))
    ]
    for line in programs(tokens):
        words_of_line = tuple(_shell_expanded(token, environment) for token in line)
        found = _recognised(_after_assignments(words_of_line, environment))
        if found is not None:
            return found
    image = container.text_at("image") or ""
    first = next((token.text for token in tokens), "")
    if container.get("command") is None:
        if any(name in image for name in _ENGINE_IMAGES) and "router" not in image:
            return VLLM, arguments(tokens)
        if "lmstack-router" in image:
            return "production-stack", arguments(tokens)
        if "vllm-router" in image:
            return "vllm-router", arguments(tokens)
        if "llm-d" in image and "sidecar" in image:
            return "llm-d-sidecar", arguments(tokens)
    return PurePosixPath(first).name, Arguments()


def _expanded(token: Token, environment: Mapping[str, Variable]) -> Token:
    """Write `$(VAR)` out, as Kubernetes does for variables of the same container."""
    text = token.text
    for name, variable in environment.items():
        if variable.value is not None and f"$({name})" in text:
            text = text.replace(f"$({name})", variable.value)
    return token if text == token.text else Token(text=text, node=token.node)


def _shell_expanded(token: Token, environment: Mapping[str, Variable]) -> Token:
    """Write `$VAR` and `${VAR}` out where the container's environment has the value."""

    def value(found: re.Match[str]) -> str:
        variable = environment.get(found.group(1) or found.group(2))
        literal = None if variable is None else variable.value
        return found.group(0) if literal is None else literal

    text = _SHELL_VARIABLE.sub(value, token.text)
    return token if text == token.text else Token(text=text, node=token.node)


def _after_assignments(line: tuple[Token, ...], environment: dict[str, Variable]) -> tuple[Token, ...]:
    """Put `NAME=value` at the begin of a line, and after `export`, into `environment`; return the rest."""
    exports = bool(line) and line[0].text == "export"
    rest = line[1:] if exports else line
    while rest and (found := _ASSIGNMENT.fullmatch(rest[0].text)):
        name, value = found.groups()
        token = Token(text=value, node=rest[0].node)
        environment[name] = Variable(
            name=name, value=value if token.known else None, field=None, node=rest[0].node
        )
        rest = rest[1:]
    return () if exports else rest


def _recognised(line: tuple[Token, ...]) -> tuple[str, Arguments] | None:
    for index, token in enumerate(line):
        name = PurePosixPath(token.text).name
        rest = line[index + 1 :]
        if name == "vllm" and rest and rest[0].text == "serve":
            return VLLM, arguments(rest[1:])
        program = _PROGRAMS.get(name)
        if program is not None:
            found = arguments(rest)
            # both projects call their program and their module so
            stack = found.last("--routing-logic", "--static-backends") is not None
            return ("production-stack" if stack else program), found
    return None
