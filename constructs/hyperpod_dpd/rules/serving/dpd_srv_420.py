"""DPD-SRV-420: the operator's environment says nothing that is computed."""

from collections.abc import Iterator
from typing import Final

from hyperpod_dpd.rules.finding import Problem, Severity
from hyperpod_dpd.rules.registry import deployment_rule
from hyperpod_dpd.rules.serving.computed import COMPUTED_LMCACHE_KEYS
from hyperpod_dpd.rules.serving.subjects import self_managed
from hyperpod_dpd.spec import Deployment

_SAID_ELSEWHERE: Final = {
    "PD_BUFFER_SIZE": "`serving.transfer.pd_buffer_gib`",
    "PYTHONHASHSEED": "`serving.transfer.hash_seed`",
    "HF_HOME": "the operator's folder for it",
    "LMCACHE_SAVE_DECODE_CACHE": "the hand-off, which needs `False`",
    "LMCACHE_CONFIG_FILE": "`serving.operator.cache_config_file`",
}


@deployment_rule(
    "DPD-SRV-420",
    severity=Severity.ERROR,
    title="no variable that is computed is given again in `serving.operator.environment`",
    sources=("SageMaker DG sagemaker-hyperpod-model-deployment-dpd (environment of the example)",),
)
def operator_environment_contradicts_nothing(deployment: Deployment) -> Iterator[Problem]:
    """The later of two values wins, and the buffer, the hashes or the cache are no longer what was checked."""
    if self_managed(deployment):
        return
    for name in deployment.serving.operator.environment or {}:
        where = _decided_by(name)
        if where is not None:
            yield Problem(
                path="serving.operator.environment",
                says="this variable is computed",
                given=f"`{name}`",
                fix=f"remove it: {where} decides it",
            )


def _decided_by(name: str) -> str | None:
    if name.startswith("LMCACHE_") and name.removeprefix("LMCACHE_").lower() in COMPUTED_LMCACHE_KEYS:
        return "the configuration that the operator writes for LMCache"
    return _SAID_ELSEWHERE.get(name)
