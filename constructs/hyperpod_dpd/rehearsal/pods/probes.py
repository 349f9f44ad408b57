"""When the kubelet takes a container for started, ready and alive, and what it runs before the container ends."""

from hyperpod_dpd.lint.node import Node
from hyperpod_dpd.rehearsal.below import items, named_ports
from hyperpod_dpd.rehearsal.pods.plan import PreStop, Probe
from hyperpod_dpd.rehearsal.pods.remarks import Remarks
from hyperpod_dpd.rehearsal.trouble import Kind


def read_probe(container: Node, key: str, title: str, remarks: Remarks) -> Probe | None:
    """Return the probe `key` of `container`, called `title`; None where it has none that can be run."""
    probe = container.get(key)
    if probe is None:
        return None
    given = probe.get("httpGet")
    if given is None:
        remarks.note(f"`{key}` of {title} is no HTTP probe and is not run")
        return None
    ports = named_ports(container)
    written = given.get("port")
    port = None if written is None else (written.number or ports.get(written.text or ""))
    if port is None:
        remarks.trouble(
            Kind.BROKEN,
            probe if written is None else written,
            f"`{key}` of {title} asks port `{None if written is None else written.text}`, which the container "
            f"does not name: it has {', '.join(f'`{each}`' for each in ports) or 'none'}",
            "name one of the container's ports",
        )
        return None
    return Probe(
        path=given.text_at("path") or "/",
        port=port,
        period_seconds=seconds(probe.get("periodSeconds"), 10),
        timeout_seconds=seconds(probe.get("timeoutSeconds"), 1),
        initial_delay_seconds=seconds(probe.get("initialDelaySeconds"), 0),
        failure_threshold=int(seconds(probe.get("failureThreshold"), 3)),
    )


def read_pre_stop(container: Node) -> PreStop | None:
    """Return what runs before `container` is told to end; None where nothing does."""
    hook = container.get("lifecycle", "preStop")
    if hook is None:
        return None
    return PreStop(
        sleep_seconds=seconds(hook.get("sleep", "seconds"), 0),
        command=tuple(word.text or "" for word in items(hook, "exec", "command")),
    )


def seconds(node: Node | None, default: float) -> float:
    """Return the number at `node`, or Kubernetes' default where none is written."""
    number = None if node is None else node.number
    return float(default if number is None else number)
