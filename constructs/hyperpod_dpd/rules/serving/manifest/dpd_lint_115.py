"""DPD-LINT-115: the decoder leaves out exactly one token."""

from collections.abc import Iterator

from hyperpod_dpd.lint.model import Fault, ManifestSet, fault
from hyperpod_dpd.rules.finding import Severity
from hyperpod_dpd.rules.registry import manifest_rule
from hyperpod_dpd.spec import Role


@manifest_rule(
    "DPD-LINT-115",
    severity=Severity.ERROR,
    title="the decoder's connector has `skip_last_n_tokens: 1`, the prefiller's has none",
    sources=("LMCache/LMCache issue 4614", "vllm-project/vllm issue 52617"),
    facts=("L15", "H1b"),
)
def one_token_is_left_out(manifests: ManifestSet) -> Iterator[Fault]:
    """A prompt that is hit to its last token gives wrong output; a sender that leaves one out never hands it over."""
    for worker in manifests.handing_over:
        if worker.operator or not worker.through_lmcache:
            continue
        given = None if worker.extra is None else worker.extra.get("skip_last_n_tokens")
        number = 0 if given is None else given.number
        wanted = 1 if worker.role is Role.DECODE else 0
        if number != wanted:
            yield fault(
                worker.argument_at("--kv-transfer-config"),
                says=f"{worker} leaves out the wrong number of tokens",
                given="no `skip_last_n_tokens`"
                if given is None
                else f"`skip_last_n_tokens: {given.shown()}`",
                limit=str(wanted),
                fix='put `"skip_last_n_tokens": 1` into `kv_connector_extra_config`'
                if wanted
                else "remove it",
            )
