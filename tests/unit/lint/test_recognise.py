"""Recognition: programs, roles, configuration, and what is said about the unknown."""

import textwrap

import pytest

from hyperpod_dpd.lint.check import Linted, lint_documents
from hyperpod_dpd.lint.command import arguments, count, programs, words
from hyperpod_dpd.lint.image import engine_versions
from hyperpod_dpd.lint.model import Worker
from hyperpod_dpd.lint.node import Node
from hyperpod_dpd.lint.read import parse
from hyperpod_dpd.spec import Role


def _report(text: str) -> Linted:
    return lint_documents(parse(textwrap.dedent(text), "f.yaml"))


def _worker(text: str) -> Worker:
    (worker,) = _report(text).manifests.workers
    return worker


def _pod(container: str, extra: str = "") -> str:
    return (
        "apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: n}\nspec:\n  containers:\n    - name: c\n"
        + textwrap.indent(textwrap.dedent(container), "      ")
        + textwrap.dedent(extra)
    )


@pytest.mark.parametrize(
    "container",
    [
        "command: [vllm, serve, m, --tensor-parallel-size, '4']",
        "command: [vllm]\nargs: [serve, m, --tensor_parallel_size=4]",
        "command: [python3, -m, vllm.entrypoints.openai.api_server, --model, m, -tp, '4']",
        "image: vllm/vllm-openai:v0.25.1\nargs: [--model=m, --tensor-parallel-size=4]",
        "command: [/bin/sh, -c, 'ulimit -l unlimited && exec vllm serve m --tensor-parallel-size 4']",
        "command: [/bin/sh, /etc/start.sh]\nargs: [vllm, serve, m, --tensor-parallel-size, '4']",
        "command: [/bin/sh, /opt/exec]\nargs: [vllm, serve, m, --tensor-parallel-size, '4']",
        "command: [bash, -x, -c, 'vllm serve m --tensor-parallel-size 4']",
        "command: [bash, -lc]\nargs:\n  - |\n    # start\n    vllm serve m \\\n      --tensor-parallel-size 4 &\n    wait\n",
        "command: [sh, -c, 'exec vllm serve m --tensor-parallel-size ${RANKS}']\nenv: [{name: RANKS, value: '4'}]",
        "command: [vllm, serve, m, --tensor-parallel-size, $(RANKS)]\nenv: [{name: RANKS, value: '4'}]",
    ],
    ids=[
        "command",
        "underscore",
        "module",
        "image",
        "shell",
        "launcher",
        "launcher-like-an-option",
        "several-options",
        "script",
        "shell-variable",
        "variable",
    ],
)
def test_vllm_is_found_however_it_is_started(container: str) -> None:
    worker = _worker(_pod(container))
    assert worker.tensor_parallel == 4
    assert (worker.arguments.positional[0].text if worker.arguments.positional else None) in {"m", None}


def test_what_nobody_says_is_the_programs_own() -> None:
    worker = _worker(_pod("command: [vllm, serve, m]"))
    assert (worker.http_port, worker.tensor_parallel, worker.port_epochs) == (8000, 1, 1)
    assert (worker.chunk_tokens, worker.prefix_caching, worker.buffer) == (256, True, None)
    assert _worker(_pod("command: [vllm, serve, m, --port, '9000']")).http_port == 9000


@pytest.mark.parametrize(
    ("given", "epochs"), [("1", 1), ("8", 8), ("0", 1), ("-1", 1), ("eight", 1), ("1000000000", 1)]
)
def test_ranges_of_ports_are_a_small_number_or_one(given: str, epochs: int) -> None:
    worker = _worker(_pod(f"command: [vllm, serve, m]\nenv: [{{name: DPD_PORT_EPOCHS, value: '{given}'}}]"))
    assert worker.port_epochs == epochs


def test_words_of_a_script_know_their_lines() -> None:
    (document,) = parse(
        "args:\n  - bash\n  - -c\n  - |\n    set -e\n    exec vllm serve m \\\n      --port 8000\n", "f"
    )
    (line,) = [line for line in programs(words(document.get("args"))) if line[0].text == "exec"]
    assert [(token.text, token.node.line) for token in line[-2:]] == [("--port", 7), ("8000", 7)]


def test_json_in_single_quotes_survives_the_shell() -> None:
    worker = _worker(
        _pod("""command: [sh, -c, 'vllm serve m --kv-transfer-config ''{"kv_connector": "X"}''']""")
    )
    assert worker.connector == "X"


def test_the_last_argument_counts() -> None:
    (document,) = parse("[--port, '1', --enforce-eager, --port=2, --no-x, --y]", "f")
    found = arguments(words(document))
    assert found.value("--port") == "2"
    assert found.last("--enforce-eager") is not None
    assert [argument.flag for argument in found.flags] == [
        "--port",
        "--enforce-eager",
        "--port",
        "--no-x",
        "--y",
    ]


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("16384", 16384),
        ("16k", 16000),
        ("16K", 16384),
        ("1.5k", 1500),
        ("x", None),
        ("infk", None),
        (None, None),
    ],
)
def test_numbers_have_vllm_s_suffixes(text: str | None, number: int | None) -> None:
    assert count(text) == number


@pytest.mark.parametrize(
    ("image", "vllm", "lmcache", "told"),
    [
        ("lmcache/vllm-openai:v0.4.3", "0.19.0", "0.4.3", {"vllm", "lmcache"}),
        ("lmcache/vllm-openai:v0.5.3", "0.25.1", "0.5.3", {"lmcache"}),
        ("vllm/vllm-openai:v0.19.0", "0.19.0", "0.4.3", {"vllm"}),
        ("vllm/vllm-openai:v0.33.0@sha256:0", "0.33.0", "0.5.3", {"vllm"}),
        ("example.com/worker:1.2.3", "0.25.1", "0.5.3", set()),
        ("example.com:5000/worker@sha256:0", "0.25.1", "0.5.3", set()),
    ],
)
def test_versions_come_from_the_image_and_the_rest_is_said_to_be_assumed(
    image: str, vllm: str, lmcache: str, told: set[str]
) -> None:
    found = engine_versions(Node(data=image, file="f", line=1, path="", written=image))
    assert (found.vllm, found.lmcache, set(found.told)) == (vllm, lmcache, told)
    assumption = found.assumption(lmcache=True)
    assert (assumption is None) == (len(told) == 2)
    for part, version in (("vllm", vllm), ("lmcache", lmcache)):
        assert (part in told) or (assumption is not None and version in assumption)


def test_the_connector_tells_the_role_and_names_do_where_it_does_not() -> None:
    producer = _pod("""command: [vllm, serve, m, --kv-transfer-config, '{"kv_role": "kv_producer"}']""")
    assert _worker(producer).role is Role.PREFILL
    assert (
        _worker(_pod("command: [vllm, serve, m]").replace("name: p,", "name: my-decode-0,")).role
        is Role.DECODE
    )
    assert _worker(_pod("command: [vllm, serve, m]")).role is Role.COLOCATED


def test_lmcache_s_file_is_found_through_volumes_and_variables_win_over_it() -> None:
    worker = _worker(
        _pod(
            """
            command: [vllm, serve, m]
            env:
              - {name: LMCACHE_CONFIG_FILE, value: /etc/lm/engine.yaml}
              - {name: LMCACHE_CHUNK_SIZE, value: "512"}
            volumeMounts: [{name: v, mountPath: /etc/lm/}]
            """,
            """
  volumes:
    - name: v
      configMap: {name: lm, items: [{key: a.yaml, path: engine.yaml}]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: lm, namespace: n}
data:
  a.yaml: |
    # chunk
    chunk_size: 256
    pd_role: sender
""",
        )
    )
    assert worker.chunk_tokens == 512
    assert worker.at("pd_role").text == "sender"
    assert worker.role is Role.PREFILL
    lines = _pod("").count("\n")
    assert worker.at("pd_role").line > lines
    assert worker.lmcache_known


def test_variables_come_from_config_maps_in_the_set() -> None:
    worker = _worker(
        _pod(
            """
            command: [vllm, serve, m]
            envFrom: [{configMapRef: {name: e}, prefix: LMCACHE_}]
            env: [{name: PYTHONHASHSEED, valueFrom: {configMapKeyRef: {name: e, key: SEED}}}]
            """,
            """
---
apiVersion: v1
kind: ConfigMap
metadata: {name: e, namespace: n}
data: {PD_ROLE: receiver, SEED: "7"}
""",
        )
    )
    assert worker.role is Role.DECODE
    assert worker.environment["PYTHONHASHSEED"].value == "7"


def test_a_reference_out_of_the_set_is_said() -> None:
    report = _report(
        _pod("command: [vllm, serve, m]\nenv: [{name: LMCACHE_CONFIG_FILE, value: /c/lm.yaml}]\n")
    )
    assert [finding.rule for finding in report.findings] == ["DPD-LINT-002"]
    assert "LMCache's configuration" in report.findings[0].problem.says


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "apiVersion: nvidia.com/v1\nkind: DynamoGraphDeployment\n",
            "objects of kind `DynamoGraphDeployment`",
        ),
        ("replicaCount: 2\n", "no Kubernetes object"),
        ("- a\n- b\n", "no Kubernetes object"),
        (
            _pod("command: [sglang]\nresources: {limits: {nvidia.com/gpu: 8}}"),
            "what container `c` of Pod `n/p` runs is not understood",
        ),
        (_pod("image: nginx").replace("name: p,", "name: my-router,"), "what container `c`"),
    ],
    ids=["kind", "values", "list", "engine", "router"],
)
def test_the_unknown_is_said_to_be_unknown(text: str, says: str) -> None:
    found = [finding for finding in _report(text).findings if finding.rule == "DPD-LINT-001"]
    assert [says in finding.problem.says for finding in found] == [True]


def test_an_unknown_item_of_a_list_is_found_with_its_line() -> None:
    report = _report("apiVersion: v1\nkind: List\nitems:\n  - apiVersion: x/v1\n    kind: Engine\n")
    assert [(finding.rule, finding.line) for finding in report.findings] == [
        ("DPD-LINT-001", 4),
        ("DPD-LINT-006", 4),
    ]


def test_one_role_alone_is_said_not_to_be_compared() -> None:
    report = _report(
        _pod(
            """command: [vllm, serve, m, --kv-transfer-config, '{"kv_connector": "NixlConnector", "kv_role": "kv_producer"}']"""
        )
    )
    says = [finding.problem.says for finding in report.findings if finding.rule == "DPD-LINT-003"]
    assert says == ["no decode worker of `n` was given, so the two roles were not compared"]


def test_endpoints_of_different_namespaces_are_not_compared() -> None:
    pod = """command: [vllm, serve, m, -tp, '%s', --kv-transfer-config, '{"kv_connector": "NixlConnector", "kv_role": "%s"}']"""
    text = (
        _pod(pod % (4, "kv_producer"))
        + "\n---\n"
        + _pod(pod % (8, "kv_consumer")).replace("namespace: n", "namespace: o")
    )
    assert "DPD-LINT-207" not in {finding.rule for finding in _report(text).findings}
    assert [endpoint.name for endpoint in _report(text).manifests.endpoints] == ["n", "o"]


def test_what_was_assumed_is_a_note() -> None:
    report = _report(
        _pod(
            """command: [vllm, serve, m, --kv-transfer-config, '{"kv_connector": "LMCacheConnectorV1", "kv_role": "kv_producer"}']\nimage: example.com/w@sha256:0"""
        )
    )
    says = " ".join(note.says for note in report.notes)
    assert "assumed vLLM 0.25.1 and LMCache 0.5.3" in says
    assert "does not know its model" in says
    assert "no `node.kubernetes.io/instance-type` is required" in says


def test_a_value_that_only_the_container_knows_is_said_and_not_guessed() -> None:
    worker = "command: [sh, -c, 'vllm serve m -tp $(nvidia-smi -L | wc -l) --kv-transfer-config \"$CONFIG\"']"
    text = (
        _pod(worker).replace("name: p,", "name: prefill,")
        + "\n---\n"
        + _pod(worker).replace("name: p,", "name: decode,")
    )
    found = _report(text).findings
    says = {finding.problem.says.split("`")[1] for finding in found if finding.rule == "DPD-LINT-002"}
    assert says == {"--tensor-parallel-size", "--kv-transfer-config"}
    assert not {"DPD-LINT-102", "DPD-LINT-125", "DPD-LINT-214"} & {finding.rule for finding in found}


def test_a_sidecar_is_a_container_too() -> None:
    report = _report(
        _pod("command: [vllm, serve, m]")
        + """
  initContainers:
    - name: once
      command: [vllm-router]
    - name: proxy
      restartPolicy: Always
      command: [vllm-router, --host=0.0.0.0, --prometheus-host=0.0.0.0]
"""
    )
    assert [router.container.name for router in report.manifests.routers] == ["proxy"]


def test_a_kustomization_that_changes_what_is_below_it_is_said_not_to_be_applied() -> None:
    text = "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: [a.yaml]\n"
    assert "DPD-LINT-001" not in {finding.rule for finding in _report(text).findings}
    found = _report(text + "patches: [{path: b.yaml}]\n").findings
    assert ("DPD-LINT-001", 4) in {(finding.rule, finding.line) for finding in found}


def test_an_abbreviated_flag_is_the_flag() -> None:
    report = _report(_pod("command: [vllm, serve, m, --tensor-parallel-siz, '4', --max-num-seq=8]"))
    (worker,) = report.manifests.workers
    assert (worker.tensor_parallel, worker.arguments.number("--max-num-seqs")) == (4, 8)
    assert "DPD-LINT-205" not in {finding.rule for finding in report.findings}
    ambiguous = _report(_pod("command: [vllm, serve, m, --max-num, '4']"))
    assert "DPD-LINT-205" in {finding.rule for finding in ambiguous.findings}


def test_variables_that_a_script_sets_are_the_engine_s() -> None:
    script = (
        "command: [bash, -c]\nargs:\n  - |\n    export A=1 B=$(hostname -i)\n"
        "    RANKS=4\n    C=3 exec vllm serve m -tp $RANKS\n"
    )
    worker = _worker(_pod(script))
    assert worker.tensor_parallel == 4
    assert {name: variable.value for name, variable in worker.environment.items()} == {
        "A": "1",
        "B": None,
        "RANKS": "4",
        "C": "3",
    }
    assert worker.environment["A"].node.line == 10
    assert "DPD-LINT-005" not in {finding.rule for finding in _report(_pod(script)).findings}
