"""Whatever a file holds, reading it gives a deployment or says why not."""

import random
import string
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hyperpod_dpd.rules import check
from hyperpod_dpd.spec import Deployment
from hyperpod_dpd.spec.load import UnreadableDeploymentError, load

_DEFAULT = (Path(__file__).parents[2] / "deployments/llama-3.3-70b-p5.yaml").read_bytes()
_MANY = settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Where a mutated file is written, again and again."""
    return tmp_path / "deployment.yaml"


def _read(file: Path, content: bytes) -> Deployment | None:
    file.write_bytes(content)
    try:
        return load(file).deployment
    except UnreadableDeploymentError as refusal:
        _is_presentable(refusal)
        return None


def _is_presentable(refusal: UnreadableDeploymentError) -> None:
    assert refusal.mistakes
    for mistake in refusal.mistakes:
        assert mistake.message
        assert not mistake.message[0].isupper() or mistake.message.startswith("YAML"), mistake.message
        assert "tuple" not in mistake.message
        assert "pydantic" not in mistake.message.lower()


_EDITS = st.lists(
    st.tuples(
        st.integers(0, len(_DEFAULT)),
        st.integers(0, 12),
        st.sampled_from(
            [b"", b" ", b"\n", b":", b"- ", b"&a ", b"*a", b"{", b"[", b"\t", b"!!set ", b"'", b"\xff", b"\0"]
        )
        | st.binary(max_size=6),
    ),
    min_size=1,
    max_size=4,
)


@given(edits=_EDITS)
@_MANY
def test_mutated_text(file: Path, edits: list[tuple[int, int, bytes]]) -> None:
    content = _DEFAULT
    for position, removed, inserted in edits:
        content = content[:position] + inserted + content[position + removed :]
    deployment = _read(file, content)
    if deployment is not None:
        check(deployment)


_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**20), 10**20)
    | st.floats(allow_nan=True)
    | st.text(string.printable + "äß\u2028\U0001f600", max_size=70)
    | st.dates(),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(st.text(max_size=8), below, max_size=3),
    max_leaves=6,
)


def _places(value: Any) -> list[tuple[Any, Any]]:
    if isinstance(value, dict):
        pairs = list(value.items())
    elif isinstance(value, list):
        pairs = list(enumerate(value))
    else:
        return []
    return [place for key, below in pairs for place in [(value, key), *_places(below)]]


@given(
    seed=st.integers(0, 10**6), value=_VALUES, new_key=st.none() | st.text(string.ascii_lowercase, max_size=8)
)
@_MANY
def test_mutated_values(file: Path, seed: int, value: Any, new_key: str | None) -> None:
    data = yaml.safe_load(_DEFAULT)
    parent, key = random.Random(seed).choice(_places(data))
    if new_key is not None and isinstance(parent, dict):
        parent[new_key] = value
    else:
        parent[key] = value
    deployment = _read(file, yaml.safe_dump(data, allow_unicode=True).encode())
    if deployment is not None:
        check(deployment)


@given(value=_VALUES)
@_MANY
def test_anything_at_all(file: Path, value: Any) -> None:
    assert _read(file, yaml.safe_dump(value, allow_unicode=True).encode()) is None
