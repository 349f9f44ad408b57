"""Faults: how they are written, which cannot happen, and that they wait for somebody to hit."""

import asyncio
from pathlib import Path

import pytest

from hyperpod_dpd.rehearsal.faults import FaultError, parse_fault
from hyperpod_dpd.rehearsal.inject import inject
from hyperpod_dpd.rehearsal.options import Options
from hyperpod_dpd.rehearsal.rehearsal import rehearse_profiles
from hyperpod_dpd.rehearsal.trouble import RefusedError
from hyperpod_dpd.spec import Role
from tests.rehearsal.support import LIMIT_SECONDS, RENDERED, copied, deployment, local_cluster, planned


def test_faults_are_read_with_values_and_times() -> None:
    lost = parse_fault("notify-loss=5%@30s")
    assert (lost.kind.name, lost.value, lost.at_seconds, str(lost)) == (
        "notify-loss", 0.05, 30.0, "notify-loss=5%@30s",
    )  # fmt: skip
    assert parse_fault("client-disconnects").at_seconds == 0
    assert parse_fault("prefill-slow=2.5").value == 2.5


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("decoder-explodes", "`decoder-explodes` is no fault. help: write one of `decoder-crash`"),
        ("decoder-crash=3", "takes no value"),
        ("notify-loss=5", "takes a share such as `=5%`"),
        ("notify-loss=0%", "a share lies above 0"),
        ("notify-loss=101%", "a share lies above 0"),
        ("prefill-slow=0.5", "a factor lies between"),
        ("prefill-slow=1.2.3", "not a number"),
        ("notify-loss=5%@-1s", "is no fault"),
        ("", "is no fault"),
    ],
)
def test_a_fault_that_is_none_is_refused(text: str, says: str) -> None:
    with pytest.raises(FaultError, match=r"help|lies|takes") as error:
        parse_fault(text)
    assert says in str(error.value)


@pytest.mark.parametrize(
    ("profile", "fault", "says"),
    [
        ("baseline", "decoder-crash@1s", "has no decode worker that `decoder-crash@1s` could hit"),
        ("baseline", "decoder-restart-in-place", "has no decode worker"),
        ("baseline", "notify-loss", "has no prefill worker"),
        ("baseline", "prefill-slow", "has no prefill worker"),
        ("self-managed", "router-restart@45s", "`router-restart@45s` begins when 45 s of traffic are over"),
        ("self-managed", "decoder-crash@1000000000s", "begins when 45 s of traffic are over"),
    ],
)
def test_a_fault_that_hits_nobody_is_refused_before_anything_starts(
    profile: str, fault: str, says: str
) -> None:
    options = Options(faults=(parse_fault(fault),))
    with pytest.raises(RefusedError) as error:
        rehearse_profiles(deployment(), [(profile, RENDERED / profile)], options=options)
    (trouble,) = error.value.troubles
    assert says in trouble.says


@pytest.mark.parametrize("share", ["maxUnavailable: 0", "minAvailable: 1", "minAvailable: 50%"])
def test_a_rolling_restart_that_a_budget_never_allows_is_refused(share: str, tmp_path: Path) -> None:
    folder = copied(tmp_path, {"decode.yaml": [("maxUnavailable: 1\n  unhealthy", f"{share}\n  unhealthy")]})
    options = Options(faults=(parse_fault("rolling-restart"),))
    with pytest.raises(RefusedError) as error:
        rehearse_profiles(deployment(), [("self-managed", folder)], options=options)
    (trouble,) = error.value.troubles
    assert "lets none of its 1 pods go, and `rolling-restart@10s` would wait for ever" in trouble.says
    assert Path(trouble.file or "").name == "decode.yaml"


async def test_a_fault_waits_for_somebody_to_hit(tmp_path: Path) -> None:
    plan = planned(tmp_path / "manifests", {})
    cluster = local_cluster(plan, tmp_path / "run")
    async with asyncio.timeout(LIMIT_SECONDS), cluster:
        (decoder,) = cluster.with_role(Role.DECODE)
        await decoder.lose()
        crash = asyncio.create_task(inject(parse_fault("decoder-restart-in-place@0s"), cluster))
        slow = asyncio.create_task(inject(parse_fault("prefill-slow@0s"), cluster))
        await slow  # and it waits until the prefiller can be told
        assert not crash.done()
        cluster.replace(decoder)
        await crash
    assert cluster.left_behind() == []
