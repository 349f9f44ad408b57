"""Whatever is in a manifest, the plan of a rehearsal answers with troubles or refuses to read it."""

import copy
import json
from functools import cache
from typing import Any

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from hyperpod_dpd.lint.read import UnreadableManifestError, parse
from hyperpod_dpd.rehearsal.plan import plan_documents
from hyperpod_dpd.spec import Deployment
from tests.support.deployments import ROOT, ready

_PROFILES = ("self-managed", "baseline")
_VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(min_value=-(10**12), max_value=10**12),
    st.floats(),
    st.sampled_from(
        ["", "x", "$(A)", "-1", "1e999", "9" * 5000, "{", "[1", "50%", "nan", "1.5Gi", "/", "a:b"]
    ),
    st.text(max_size=20),
    st.lists(st.one_of(st.none(), st.integers(), st.text(max_size=5)), max_size=3),
    st.dictionaries(
        st.text(max_size=5), st.one_of(st.none(), st.integers(), st.text(max_size=5)), max_size=3
    ),
)


@cache
def _deployment() -> Deployment:
    return ready()


@cache
def _documents(profile: str) -> str:
    files = sorted((ROOT / "manifests/rendered/llama-3-3-70b-p5" / profile).glob("*.yaml"))
    found = [each for file in files for each in yaml.safe_load_all(file.read_text(encoding="utf-8"))]
    return json.dumps(found)


def _paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    below = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(found for key, child in below for found in _paths(child, (*path, key)))]


@given(data=st.data(), profile=st.sampled_from(_PROFILES), value=_VALUES, removed=st.booleans())
@settings(max_examples=120, deadline=None)
def test_any_value_in_any_place_is_planned_or_troubles_are_said(
    data: st.DataObject, profile: str, value: Any, removed: bool
) -> None:
    documents = json.loads(_documents(profile))
    place = data.draw(st.sampled_from(_paths(documents)[1:]))
    holder = documents
    for key in place[:-1]:
        holder = holder[key]
    if removed:
        del holder[place[-1]]
    else:
        holder[place[-1]] = copy.deepcopy(value)
    text = "---\n".join(json.dumps(each, ensure_ascii=False) + "\n" for each in documents)
    try:
        plan = plan_documents(parse(text, "f.yaml"), _deployment(), folder="f")
    except UnreadableManifestError:  # a character that YAML does not allow
        return
    for trouble in plan.troubles:
        assert trouble.message
    for placement in plan.placements:
        assert len(placement.nodes) <= max(0, placement.plan.replicas)
