"""Whatever is in a manifest, lint answers with findings or refuses to read it; it never raises anything else."""

import copy
import json
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from hyperpod_dpd.lint.check import lint_documents
from hyperpod_dpd.lint.read import UnreadableManifestError, parse

_ROOT = Path(__file__).parents[2]
_SETS = (
    "tests/unit/lint/sets/lmcache-pair",
    "tests/unit/lint/sets/nixl-pair",
    "tests/unit/lint/sets/aws-dpd-example.yaml",
    "manifests/rendered/llama-3-3-70b-p5/self-managed",
)

_VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(min_value=-(10**12), max_value=10**12),
    st.floats(),
    st.sampled_from(
        ["", "x", "$(A)", "-1", "1e999", "9" * 5000, "infk", "{", "[1", "'", "a: b", "--x", "nan"]
    ),
    st.text(max_size=20),
    st.lists(st.one_of(st.none(), st.integers(), st.text(max_size=5)), max_size=3),
    st.dictionaries(
        st.text(max_size=5), st.one_of(st.none(), st.integers(), st.text(max_size=5)), max_size=3
    ),
)


@cache
def _documents(name: str) -> str:
    path = _ROOT / name
    files = sorted(path.glob("*.yaml")) if path.is_dir() else [path]
    found = [each for file in files for each in yaml.safe_load_all(file.read_text(encoding="utf-8"))]
    return json.dumps(found)


def _paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    below = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(found for key, child in below for found in _paths(child, (*path, key)))]


@given(data=st.data(), name=st.sampled_from(_SETS), value=_VALUES)
@settings(max_examples=150, deadline=None)
def test_any_value_in_any_place_is_answered(data: st.DataObject, name: str, value: Any) -> None:
    documents = json.loads(_documents(name))
    place = data.draw(st.sampled_from(_paths(documents)[1:]))
    holder = documents
    for key in place[:-1]:
        holder = holder[key]
    holder[place[-1]] = copy.deepcopy(value)
    _answered(documents)


def _answered(documents: Any) -> None:
    text = "---\n".join(json.dumps(each, ensure_ascii=False) + "\n" for each in documents)
    try:
        report = lint_documents(parse(text, "f.yaml"))
    except UnreadableManifestError:  # a character that YAML does not allow
        return
    for finding in report.findings:
        assert finding.message
        assert finding.line is not None


_LMCACHE_KEYS = (
    "chunk_size",
    "enable_pd",
    "nixl_backends",
    "pd_allocation_timeout_sec",
    "pd_buffer_size",
    "pd_peer_alloc_port",
    "pd_peer_host",
    "pd_peer_init_port",
    "pd_proxy_host",
    "pd_proxy_port",
    "pd_role",
)


@given(key=st.sampled_from(_LMCACHE_KEYS), value=_VALUES, role=st.sampled_from(["prefiller", "decoder"]))
@settings(max_examples=100, deadline=None)
def test_any_value_in_lmcache_s_file_is_answered(key: str, value: Any, role: str) -> None:
    documents = json.loads(_documents(_SETS[0]))
    (files,) = [item["data"] for each in documents for item in each.get("items", ()) if "data" in item]
    keys = {**yaml.safe_load(files[f"{role}.yaml"]), key: value}
    files[f"{role}.yaml"] = yaml.safe_dump(keys)
    _answered(documents)


@given(data=st.data(), value=_VALUES, worker=st.sampled_from([1, 2]))
@settings(max_examples=100, deadline=None)
def test_any_value_in_the_connector_is_answered(data: st.DataObject, value: Any, worker: int) -> None:
    documents = json.loads(_documents(_SETS[1]))
    arguments = documents[0]["items"][worker - 1]["spec"]
    arguments = (arguments.get("template") or arguments["leaderWorkerTemplate"]["workerTemplate"])["spec"]
    arguments = arguments["containers"][0]["args"]
    flag, _, text = arguments[-1].partition("=")
    connector = json.loads(text)
    place = data.draw(st.sampled_from(_paths(connector)[1:]))
    holder = connector
    for key in place[:-1]:
        holder = holder[key]
    holder[place[-1]] = value
    arguments[-1] = f"{flag}={json.dumps(connector)}"
    _answered(documents)


@given(text=st.text(max_size=200))
@settings(max_examples=150, deadline=None)
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        documents = parse(text, "f.yaml")
    except UnreadableManifestError:
        return
    lint_documents(documents)
