"""DPD-LINT-125: both sides have a connector."""

from collections.abc import Iterator

from hyperpod_dpd.lint.model import Fault, ManifestSet, Worker, fault
from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import manifest_rule


@manifest_rule(
    "DPD-LINT-125",
    severity=Severity.ERROR,
    title="a prefill or decode worker has a KV connector, and both have the same one",
    sources=("vLLM `--kv-transfer-config`",),
)
def both_sides_connect(manifests: ManifestSet) -> Iterator[Fault]:
    """A worker without it computes and keeps its cache: the router waits for a hand-off that never begins."""
    for endpoint in manifests.endpoints:
        for worker in (*endpoint.prefill, *endpoint.decode):
            given = worker.arguments.last("--kv-transfer-config")
            if given is not None and given.value is not None and not given.value.known:
                continue  # DPD-LINT-002 has spoken
            if worker.connector is None:
                yield fault(
                    worker.argument_at("--kv-transfer-config"),
                    says=f"{worker} has no KV connector"
                    if given is None
                    else f"the KV connector of {worker} cannot be read",
                    given="no `--kv-transfer-config`"
                    if given is None
                    else f"`{given.value.text if given.value is not None else ''}`",
                    fix="give it `--kv-transfer-config` with a JSON object that names `kv_connector` and `kv_role`",
                )
        for prefill, decode in endpoint.pairs:
            if prefill.connector and decode.connector and _family(prefill) != _family(decode):
                yield fault(
                    decode.argument_at("--kv-transfer-config"),
                    says="prefill and decode have different connectors",
                    given=f"`{prefill.connector}` and `{decode.connector}`",
                    fix="give both the same connector",
                )


def _family(worker: Worker) -> str | None:
    return "nixl" if worker.through_nixl else worker.connector
