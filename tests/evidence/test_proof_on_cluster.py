"""The proof on a cluster: the Job's program against an API server, and `dpd proof` against kubectl and against workers."""

import asyncio
import json
import ssl
import stat
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from dpd_simulator import LMCacheConfig
from hyperpod_dpd.cli.app import run
from hyperpod_dpd.evidence.on_demand import CannotProveError, Kubectl, prove_again
from hyperpod_dpd.evidence.proof import __main__ as program
from hyperpod_dpd.evidence.proof import kubernetes
from hyperpod_dpd.evidence.proof.kubernetes import Api
from hyperpod_dpd.evidence.proof.options import parse
from hyperpod_dpd.evidence.proof_job import render_proof
from hyperpod_dpd.serving.profile import Profile
from tests.evidence.rig import EXPORTER_PORT, KV_BYTES_PER_TOKEN, THRESHOLD_TOKENS, Rig, Setting, running
from tests.support.authority import HOST, authority_like_eks, be_strict, shake_hands
from tests.support.deployments import ROOT, ready
from tests.support.manifests import find

FILE = ROOT / "deployments/llama-3.3-70b-p5.yaml"

# The Job's program ------------------------------------------------------------------------------------------------------


@dataclass
class Cluster:
    """What an API server has and was told."""

    pods: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """Pods by label selector."""

    log: str = ""
    denied: set[str] = field(default_factory=set)
    """Last parts of paths that answer 403."""

    events: list[dict[str, Any]] = field(default_factory=list)
    tokens: set[str] = field(default_factory=set)
    url: str = ""

    def add(self, selector: str, address: str, *, node: str = "node-1", phase: str = "Running") -> None:
        """Put a pod there."""
        pods = self.pods.setdefault(selector, [])
        pods.append(
            {
                "metadata": {"name": f"{selector.partition('=')[2]}-{len(pods)}"},
                "spec": {"nodeName": node, "containers": [{"name": "decode-dpd"}, {"name": "sidecar"}]},
                "status": {"phase": phase, "podIP": address},
            }
        )


@contextmanager
def api_server(cluster: Cluster) -> Iterator[Cluster]:
    """Answer as an API server does until the block ends."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            cluster.tokens.add(self.headers["Authorization"])
            parts = urlsplit(self.path)
            query = parse_qs(parts.query)
            if parts.path.rpartition("/")[2] in cluster.denied:
                self._answer(403, "{}")
            elif parts.path.endswith("/log"):
                self._answer(200, cluster.log if query["container"] == ["decode-dpd"] else "")
            else:
                assert parts.path == "/api/v1/namespaces/workers/pods"
                self._answer(200, json.dumps({"items": cluster.pods.get(query["labelSelector"][0], [])}))

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            assert self.path == "/api/v1/namespaces/system/events"
            if "events" in cluster.denied:
                self._answer(403, "{}")
                return
            cluster.events.append(json.loads(body))
            self._answer(201, "{}")

        def _answer(self, status: int, text: str) -> None:
            data = text.encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_arguments: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    cluster.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield cluster
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Cluster]:
    """An API server, and a pod's view of it."""
    monkeypatch.setenv("POD_NAMESPACE", "system")
    monkeypatch.setenv("JOB_NAME", "proof-12345678")
    message = tmp_path / "termination-log"
    message.touch()
    monkeypatch.setattr(program, "TERMINATION_PATH", message)
    with api_server(Cluster()) as given:
        monkeypatch.setattr(Api, "in_cluster", lambda: Api(url=given.url, token="secret", context=None))
        yield given


def arguments(rig: Rig, *more: str) -> list[str]:
    return [
        f"--url={rig.target.url}",
        "--model=m",
        f"--threshold={THRESHOLD_TOKENS}",
        "--workers-namespace=workers",
        "--prefill-selector=role=prefill",
        "--decode-selector=role=decode",
        f"--kv-bytes-per-token={KV_BYTES_PER_TOKEN}",
        "--event",
        "--timeout-seconds=120",
        "--request-seconds=60",
        "--drain-seconds=30",
        # simulated workers count at once
        "--statistics-seconds=0.5",
        *more,
    ]


def populate(cluster: Cluster, rig: Rig) -> None:
    for role, engines in (("prefill", rig.cluster.prefillers), ("decode", rig.cluster.decoders)):
        for engine in engines:
            cluster.add(f"role={role}", engine.host)
        # what has ended, or has no address yet, is no worker
        cluster.add(f"role={role}", "127.0.0.1", phase="Failed")
        cluster.add(f"role={role}", "", phase="Pending")
    cluster.add("role=exporter", rig.cluster.router_host, node="node-1")
    cluster.add("role=exporter", "127.0.0.1", node="node-without-a-prefiller")


async def test_a_job_proves_tells_an_event_and_prints_json(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    async with running(Setting()) as rig:
        populate(cluster, rig)
        given = arguments(
            rig,
            "--exporters-namespace=workers",
            "--exporters-selector=role=exporter",
            f"--exporters-port={EXPORTER_PORT}",
        )
        code = await asyncio.to_thread(program.main, given)
    printed = capsys.readouterr()
    assert code == 0, printed.err
    result = json.loads(printed.out)
    assert result["verdict"] == "proved"
    assert result["numbers"]["hand-offs"] == 1
    assert "EFA counters of exporters" in result["sources"]
    (event,) = cluster.events
    assert (event["type"], event["reason"]) == ("Normal", "HandOffProved")
    assert event["involvedObject"] == {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "namespace": "system",
        "name": "proof-12345678",
    }
    assert cluster.tokens == {"Bearer secret"}
    assert program.TERMINATION_PATH.read_text().startswith("proved in ")


async def test_a_job_that_proves_nothing_leaves_the_cause_where_it_is_waited_for(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.log = "[req_id=a] Retrieved 0 out of 4608 required tokens (from 4608 total tokens). size: 0 gb, throughput: 0.0 GB/s;\n"
    async with running(Setting(lmcache=LMCacheConfig(hash_seed=None))) as rig:
        populate(cluster, rig)
        given = arguments(rig, "--no-router-metrics", "--no-efa", "--log-container=decode-")
        code = await asyncio.to_thread(program.main, given)
    printed = capsys.readouterr()
    assert code == 1
    result = json.loads(printed.out)
    assert [finding["id"] for finding in result["findings"]] == ["keys-differ"]
    assert result["numbers"]["retrieved by the logs"] == ["0 of 4608"]
    assert "no counters of the router, which AWS's does not show" in result["sources"]
    message = program.TERMINATION_PATH.read_text()
    assert message.startswith("DPD-SRV-107 DPD-SRV-005 keys-differ ")
    assert cluster.events[0]["type"] == "Warning"
    assert cluster.events[0]["message"] == message[:1024]


def test_rights_that_are_missing_are_said_and_are_no_verdict(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.denied = {"pods"}
    given = ["--url=http://127.0.0.1:1", "--model=m", "--threshold=512", "--workers-namespace=workers"]
    assert program.main([*given, "--prefill-selector=role=prefill", "--decode-selector=role=decode"]) == 2
    assert "the API server answers 403 to `/api/v1/namespaces/workers/pods`" in capsys.readouterr().err
    assert "could not be tried" in program.TERMINATION_PATH.read_text()
    assert cluster.events == []


def test_an_event_that_may_not_be_created_changes_no_verdict(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.denied = {"events"}
    given = [
        "--url=http://127.0.0.1:1",
        "--model=m",
        "--threshold=512",
        "--workers-namespace=workers",
        "--event",
    ]
    assert program.main([*given, "--prefill-selector=role=prefill", "--decode-selector=role=decode"]) == 1
    assert "the Event could not be created" in capsys.readouterr().err


FOUND = [
    "--url=http://router:8081",
    "--model=m",
    "--threshold=512",
    "--workers-namespace=workers",
    "--prefill-selector=role=prefill",
    "--decode-selector=role=decode",
    "--exporters-namespace=workers",
    "--exporters-selector=app=efa",
    "--log-container=decode-",
]


def test_pods_without_an_address_and_nodes_without_an_exporter_are_told(cluster: Cluster) -> None:
    for number, address in enumerate(("10.0.0.1", "10.0.0.2", "")):
        cluster.add("role=prefill", address, node=f"node-{number}")
    cluster.add("role=decode", "10.0.0.4", node="node-4")
    cluster.add("app=efa", "10.0.0.5", node="node-0")
    cluster.add("app=efa", "", node="node-1")
    given, _ = program._found(parse(FOUND), Api.in_cluster())
    assert given.target.prefillers == ("http://10.0.0.1:8000", "http://10.0.0.2:8000")
    assert given.target.without_address == ("prefill-2",)
    assert given.target.efa_exporters == ("http://10.0.0.5:9119",)
    assert (
        given.target.efa_exporters_missing == "no exporter's pod runs on 1 of the 2 nodes of the prefillers"
    )


def test_of_a_log_that_is_cut_off_nothing_is_taken(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster.add("role=prefill", "10.0.0.1")
    cluster.add("role=decode", "10.0.0.4")
    cluster.log = "Retrieved 256 out of 256 tokens. throughput: 0.2 GB/s\n"
    _, logs = program._found(parse(FOUND), Api.in_cluster())
    assert logs is not None
    assert logs(30) == cluster.log
    # the beginning would be the slowest part, and all that is left of it
    monkeypatch.setattr(kubernetes, "_LOG_BYTES", len(cluster.log))
    with pytest.raises(OSError, match=r"the log of `decode-0` has more than 54 bytes in 31 seconds"):
        logs(30)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--threshold", "many"], "neither a number of tokens nor `never`"),
        (["--url", "router:8081"], "does not begin with `http://`"),
        (["--worker-port", "0"], "is not a number from 1 on"),
        (["--timeout-seconds", "nan"], "is not a number of seconds"),
        (["--workers-namespace", "w"], "needs `--prefill-selector`"),
        (
            [
                "--workers-namespace=w",
                "--prefill-selector=a=b",
                "--decode-selector=a=c",
                "--decoder=http://d:1",
            ],
            "and not both",
        ),
    ],
)
def test_a_command_line_that_means_nothing_is_refused(
    given: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        program.main(["--url=http://router:8081", "--model=m", "--threshold=512", *given])
    assert said in capsys.readouterr().err


# `dpd proof` from this machine ------------------------------------------------------------------------------------------


async def test_from_this_machine_workers_are_named_by_hand(capsys: pytest.CaptureFixture[str]) -> None:
    ranks = LMCacheConfig()
    async with running(Setting(router={"threshold": "4096"}, lmcache=ranks)) as rig:
        (prefiller,), (decoder,) = rig.target.prefillers, rig.target.decoders
        given = ["proof", str(FILE), "--url", rig.target.url, "--prefiller", prefiller, "--decoder", decoder]
        code = await asyncio.to_thread(run, [*given, "--no-efa", "--timeout", "120", "--format", "json"])
    printed = json.loads(capsys.readouterr().out)
    assert printed["deployment"] == ready().name
    # the simulated workers have another name, and not the eight ranks of the deployment
    assert (code, [each["id"] for each in printed["findings"]]) == (1, ["prompt-refused"])


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--prefiller", "http://a:1"], "go with `--url`"),
        (["--url", "http://a:1"], "needs a `--prefiller` and a `--decoder`"),
    ],
)
def test_half_of_a_target_is_refused(given: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["proof", str(FILE), *given]) == 2
    assert said in capsys.readouterr().err


# `dpd proof` on the cluster ---------------------------------------------------------------------------------------------

RESULT = {
    "verdict": "failed",
    "findings": [
        {
            "id": "silent-tcp",
            "says": "0 MB",
            "cause": "UCX",
            "rules": ["DPD-SRV-006"],
            "fix": "look",
            "runbook": None,
        }
    ],
    "sources": ["the router's counters"],
    "numbers": {"hand-offs": 1, "fallbacks": {}},
    "notes": [],
    "seconds": 3.2,
}


def released(name: str, created: str) -> dict[str, Any]:
    """The rendered Job as an API server returns it."""
    objects = render_proof(ready(), Profile.SELF_MANAGED, revision="r").objects
    job: dict[str, Any] = json.loads(json.dumps(find(objects, "Job")))
    job["metadata"] |= {"name": name, "uid": "1", "creationTimestamp": created, "resourceVersion": "7"}
    job["spec"]["selector"] = {"matchLabels": {"batch.kubernetes.io/controller-uid": "1"}}
    job["spec"]["template"]["metadata"]["labels"] |= {
        "batch.kubernetes.io/controller-uid": "1",
        "batch.kubernetes.io/job-name": name,
        "controller-uid": "1",
        "job-name": name,
    }
    job["status"] = {"conditions": [{"type": "Complete", "status": "True"}]}
    return job


@dataclass
class Tool:
    """Kubectl, as far as it is used."""

    jobs: list[dict[str, Any]]
    log: str = json.dumps(RESULT)
    polls_until_end: int = 2
    created: list[dict[str, Any]] = field(default_factory=list)

    def __call__(self, *arguments: str, given: str | None = None) -> str:
        match arguments[:2]:
            case ("get", "jobs"):
                assert "app.kubernetes.io/component=proof" in arguments[arguments.index("--selector") + 1]
                return json.dumps({"items": self.jobs})
            case ("create", _):
                assert given is not None
                self.created.append(json.loads(given))
                return ""
            case ("get", "job"):
                self.polls_until_end -= 1
                ended = [] if self.polls_until_end > 0 else [{"type": "Failed", "status": "True"}]
                return json.dumps({"status": {"conditions": ended}})
            case ("logs", _):
                return self.log
        raise AssertionError(arguments)


def again(tool: Tool, **more: Any) -> dict[str, Any]:
    return prove_again(ready(), tool, say=lambda _: None, pause=lambda _: None, **more)


def test_the_newest_released_proof_runs_once_more_with_what_was_bound() -> None:
    old, new = (
        released("proof-00000000", "2026-11-29T10:00:00Z"),
        released("proof-11111111", "2026-11-30T09:00:00Z"),
    )
    by_hand = released("proof-11111111-abcdef", "2026-11-30T10:00:00Z")
    tool = Tool(jobs=[old, new, by_hand], log=f"sending a prompt\n{json.dumps(RESULT)}\nnot proved\n")
    assert again(tool) == RESULT
    (made,) = tool.created
    assert made["metadata"]["name"].startswith("proof-11111111-")
    assert made["spec"]["template"]["spec"] == new["spec"]["template"]["spec"]
    assert made["spec"]["backoffLimit"] == 0
    # the API server refuses a Job with another one's selector or labels
    assert set(made["spec"]) == {
        "backoffLimit",
        "activeDeadlineSeconds",
        "ttlSecondsAfterFinished",
        "template",
    }
    assert not [
        label
        for label in made["spec"]["template"]["metadata"]["labels"]
        if "job-name" in label or "uid" in label
    ]
    # policies select it as the released one
    assert made["spec"]["template"]["metadata"]["labels"]["app.kubernetes.io/component"] == "proof"


def test_without_a_released_proof_there_is_nothing_to_run() -> None:
    with pytest.raises(
        CannotProveError, match=r"no release has left a proof .*help: deploy the serving stack"
    ):
        again(Tool(jobs=[]))


def test_a_job_that_says_nothing_is_no_verdict() -> None:
    tool = Tool(jobs=[released("proof-11111111", "2026-11-30T09:00:00Z")], log="Traceback: broken")
    with pytest.raises(
        CannotProveError, match=r"ended without a verdict and said: Traceback: broken.*help: `kubectl"
    ):
        again(tool)


def test_a_job_that_never_ends_is_not_waited_for_for_ever() -> None:
    tool = Tool(jobs=[released("proof-11111111", "2026-11-30T09:00:00Z")], polls_until_end=10**9)
    seconds = iter(range(0, 100_000, 100))
    with pytest.raises(CannotProveError, match=r"has not ended in time"):
        again(tool, clock=lambda: float(next(seconds)))


@pytest.fixture
def kubectl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program called kubectl that does what a test writes into a file beside it."""
    path = tmp_path / "kubectl"
    path.write_text(f"#!{sys.executable}\nexec(open({str(tmp_path / 'body.py')!r}).read())\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path / "body.py"


def test_kubectls_own_words_are_passed_on(kubectl: Path) -> None:
    kubectl.write_text("import sys; sys.stderr.write('error: You must be logged in\\n'); sys.exit(1)")
    with pytest.raises(CannotProveError, match=r"^kubectl: You must be logged in$"):
        Kubectl(context=None)("get", "jobs")


def test_context_and_input_reach_kubectl(kubectl: Path) -> None:
    kubectl.write_text("import sys; print(sys.argv[1:], sys.stdin.read())")
    said = Kubectl(context="gpu")("create", "--filename", "-", given="{}")
    assert said == "['--context', 'gpu', 'create', '--filename', '-'] {}\n"


def test_without_kubectl_there_is_no_verdict_and_another_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert run(["proof", str(FILE)]) == 3
    assert "`kubectl` is not installed" in capsys.readouterr().err


def test_a_verdict_of_the_cluster_is_printed_with_its_cause(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tool = Tool(jobs=[released("proof-11111111", "2026-11-30T09:00:00Z")], polls_until_end=1)
    monkeypatch.setattr("hyperpod_dpd.evidence.on_demand.Kubectl", lambda **_: tool)
    assert run(["proof", str(FILE)]) == 1
    printed = capsys.readouterr()
    assert "error: DPD-SRV-006 silent-tcp 0 MB. likely cause: UCX. help: look" in printed.err
    assert printed.out.splitlines()[-1] == "llama-3-3-70b-p5: not proved in 3.2 s by the router's counters"


def test_certificates_of_eks_are_believed_and_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    be_strict(monkeypatch)
    mine, other = (authority_like_eks(tmp_path / name) for name in ("mine", "other"))
    monkeypatch.setattr(kubernetes, "_ACCOUNT", mine.authority.parent)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", HOST)
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    (mine.authority.parent / "token").write_text("a")
    context = Api.in_cluster()._context
    assert context is not None
    shake_hands(context, mine.server)
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(context, other.server)
