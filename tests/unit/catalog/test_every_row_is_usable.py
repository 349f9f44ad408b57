"""A row of the catalog is complete: whatever the checklists in docs/contributing ask for is there, for every row."""

import re
from collections.abc import Iterator

import pytest

from hyperpod_dpd.catalog import engines, instances, models
from hyperpod_dpd.derive import resolve
from hyperpod_dpd.planner import step_model
from hyperpod_dpd.rules.check import check
from hyperpod_dpd.serving.profile import Profile
from hyperpod_dpd.serving.render import render
from hyperpod_dpd.spec import Deployment, Engine
from tests.support.deployments import ROOT, changed, ready

_DATA = ROOT / "constructs/hyperpod_dpd/catalog/data"


def _on(instance: str) -> Deployment:
    return changed(
        ready(),
        hyperpod__instance_groups__0__instance_type=instance,
        hyperpod__instance_groups__1__instance_type=instance,
    )


def _errors(deployment: Deployment) -> list[str]:
    """Return what the rules refuse; an acknowledgement that another row has no use for is not meant."""
    return [str(finding) for finding in check(deployment).errors if not finding.rule.startswith("DPD-ACK-")]


@pytest.mark.parametrize("row", instances.instance_types(), ids=lambda row: row.name)
def test_an_instance_type_serves_the_default_model(row: instances.InstanceType) -> None:
    deployment = _on(row.name)
    assert _errors(deployment) == []
    facts = resolve(deployment)
    assert facts.prefill.memory.fits
    assert facts.prefill.efa_devices == row.efa_devices
    assert render(deployment, Profile.SELF_MANAGED).files


@pytest.mark.parametrize("row", instances.instance_types(), ids=lambda row: row.name)
def test_an_instance_type_has_a_quota_and_times(row: instances.InstanceType) -> None:
    assert re.fullmatch(r"L-[0-9A-F]{8}", row.quota_code)
    times = step_model(models.model("llama-3.3-70b-instruct"), row.gpu, tensor_parallel=8)
    assert 0 < times.decode_step_seconds(1, 1024) < times.prefill_seconds(8192)


def test_quota_codes_are_each_instance_types_own() -> None:
    codes = [row.quota_code for row in instances.instance_types()]
    assert len(set(codes)) == len(codes)


@pytest.mark.parametrize("row", models.models(), ids=lambda row: row.name)
def test_a_model_has_a_place_where_the_rules_let_it_serve(row: models.ModelGeometry) -> None:
    """The smallest check that geometry, precision and limits of a row hang together."""
    fits = next((deployment for deployment in _candidates(row) if not _errors(deployment)), None)
    assert (fits is None) == (row.name in _TOO_LARGE)
    if fits is not None:
        assert render(fits, Profile.SELF_MANAGED).files


def _candidates(row: models.ModelGeometry) -> Iterator[Deployment]:
    for instance in reversed(instances.instance_types()):
        for weights in ("bf16", "fp8"):
            yield changed(
                _on(instance.name),
                model__name=row.name,
                model__weights=weights,
                serving__max_model_len_tokens=min(16384, row.max_position_tokens),
            )


_TOO_LARGE = {"deepseek-v3"}
"""Models that are known, so that a deployment of them is refused with numbers, and fit on no node of the catalog."""


@pytest.mark.parametrize("row", engines.engines(), ids=lambda row: row.name)
def test_an_engine_has_its_words_its_parsers_and_a_rendering(row: engines.EngineTriple) -> None:
    assert (_DATA / f"vllm-{row.vllm}-flags.txt").read_text(encoding="utf-8")
    assert (_DATA / f"lmcache-{row.lmcache}-keys.txt").read_text(encoding="utf-8")
    assert (ROOT / f"requirements/engines/vllm-{row.vllm}.txt").exists()
    assert (ROOT / f"requirements/engines/lmcache-{row.lmcache}.txt").exists()
    installed = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert f"/vllm-{row.vllm}/.installed" in installed
    assert f"/lmcache-{row.lmcache}/.installed" in installed
    deployment = changed(ready(), serving__engine=Engine(name=row.name))
    assert _errors(deployment) == []
    assert render(deployment, Profile.SELF_MANAGED).files


def test_the_default_engine_is_the_one_that_the_worker_image_holds() -> None:
    (default,) = [row for row in engines.engines() if row.image is None]
    pinned = (ROOT / "images/worker/requirements.in").read_text(encoding="utf-8")
    assert f"vllm=={default.vllm}" in pinned
    assert f"lmcache=={default.lmcache}" in pinned
