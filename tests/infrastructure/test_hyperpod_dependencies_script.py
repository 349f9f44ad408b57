"""`dependencies.sh` under bash with stub tools: order, retry, refused downloads, failure text."""

import hashlib
import io
import os
import stat
import subprocess
import tarfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from hyperpod_dpd.catalog import charts
from hyperpod_dpd.cluster.dependencies_chart import archive as archive_module
from hyperpod_dpd.cluster.dependencies_chart import build_environment

SCRIPT = Path(archive_module.__file__).parent / "scripts" / "dependencies.sh"
IMAGE = "767398015722.dkr.ecr.us-east-1.amazonaws.com/hyperpod-health-monitoring-agent:1.0.1892.0_1.0.424.0"
CHART_YAML = """\
apiVersion: v2
name: hyperpod-helm-chart
version: 0.1.0
dependencies:
  - name: cert-manager
    version: "v1.18.2"
    repository: oci://quay.io/jetstack/charts
    condition: cert-manager.enabled
  - name: nvidia-device-plugin
    version: "0.16.1"
    repository: https://nvidia.github.io/k8s-device-plugin
  - name: health-monitoring-agent
    version: "0.1.0"
    repository: "file://charts/health-monitoring-agent"
"""

# every stub writes its name and arguments to $CALLS; `fail-NAME` holds how many of its next calls fail
PREAMBLE = """#!/usr/bin/env bash
name=$(basename "$0")
echo "$name $*" >>"$STATE/calls"
fails() {
  local file="$STATE/fail-$1" left
  [[ -e "$file" ]] || return 1
  left=$(cat "$file")
  ((left > 0)) || return 1
  echo $((left - 1)) >"$file"
  echo "${2:-$1 is broken}" >&2
  return 0
}
"""
GIT = """
[[ "$1" == -C ]] && { directory=$2; shift 2; }
case "$1" in
  init) mkdir -p "${@: -1}" ;;
  fetch) fails git-fetch "could not resolve host" && exit 128 ;;
  checkout) mkdir -p "$directory/helm_chart" && cp -R "$STATE/chart" "$directory/helm_chart/HyperPodHelmChart" ;;
  rev-parse) cat "$STATE/commit" ;;
esac
exit 0
"""
CURL = """
fails curl "curl: (22) 503" && exit 22
while (($#)); do
  case "$1" in --output) out=$2; shift ;; esac
  url=$1
  shift
done
cp "$STATE/remote/$(basename "$url")" "$out"
"""
AWS = """
case "$1 $2" in
  "eks describe-cluster")
    if [[ -e "$STATE/cluster-gone" ]]; then echo "ResourceNotFoundException: No cluster found" >&2; exit 254; fi
    fails aws-describe "AccessDeniedException: not you" && exit 254
    ;;
  "s3 cp") cp "$STATE/archive.tar.gz" "${@: -1}" ;;
esac
exit 0
"""
KUBECTL = """
case "$1" in
  auth) fails kubectl-auth "error: You must be logged in to the server" && exit 1; echo yes ;;
  get) fails kubectl-get "NotFound" && exit 1; cat "$STATE/image" ;;
esac
exit 0
"""
HELM = """
case "$1" in
  list) cat "$STATE/pending" 2>/dev/null ;;
  rollback) fails helm-rollback "Error: release has no 0 version" && exit 1 ;;
  upgrade)
    fails helm-upgrade "Error: UPGRADE FAILED: the server is on fire" && exit 1
    cp -R "$3" "$STATE/installed"
    ;;
  uninstall) fails helm-uninstall "Error: forbidden" && exit 1 ;;
esac
exit 0
"""
SLEEP = '\n[[ "$1" == 0 ]] || exit 3\n'


def _tar(entries: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, content in entries.items():
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(content), 0o755
            archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@dataclass
class Sandbox:
    """A machine on which only the stubs exist beside the system's own tools."""

    state: Path
    environment: dict[str, str] = field(default_factory=dict)

    def run(self, *arguments: str, **changes: str) -> "Outcome":
        result = subprocess.run(
            ["bash", str(SCRIPT), *arguments],
            env={**self.environment, **changes},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        calls = self.state / "calls"
        return Outcome(
            code=result.returncode,
            output=result.stdout + result.stderr,
            calls=calls.read_text().splitlines() if calls.exists() else [],
        )

    def fail(self, what: str, times: int) -> None:
        (self.state / f"fail-{what}").write_text(str(times))


@dataclass
class Outcome:
    code: int
    output: str
    calls: Sequence[str]

    @property
    def reason(self) -> str:
        marked = [line for line in self.output.splitlines() if line.startswith("dpd-error: ")]
        return marked[-1].removeprefix("dpd-error: ") if marked else ""

    def of(self, *starts: str) -> list[str]:
        return [call for call in self.calls if call.startswith(starts)]


@pytest.fixture
def sandbox(tmp_path: Path) -> Sandbox:
    state, stubs, remote = tmp_path / "state", tmp_path / "stubs", tmp_path / "state" / "remote"
    remote.mkdir(parents=True)
    stubs.mkdir()
    for name, body in {"git": GIT, "curl": CURL, "aws": AWS, "sleep": SLEEP}.items():
        stub = stubs / name
        stub.write_text(PREAMBLE + body)
        stub.chmod(stub.stat().st_mode | stat.S_IXUSR)
    chart = state / "chart"
    (chart / "charts" / "health-monitoring-agent").mkdir(parents=True)
    (chart / "charts" / "health-monitoring-agent-0.1.0.tgz").write_bytes(b"an old package")
    (chart / "Chart.yaml").write_text(CHART_YAML)
    (state / "commit").write_text(charts.DEPENDENCIES_CHART.commit)
    (state / "image").write_text(IMAGE)
    files = {
        "HELM": ("helm-v4.1.4-linux-amd64.tar.gz", _tar({"linux-amd64/helm": (PREAMBLE + HELM).encode()})),
        "KUBECTL": ("kubectl", (PREAMBLE + KUBECTL).encode()),
        "NVIDIA_PLUGIN": ("nvidia-device-plugin-0.16.1.tgz", b"nvidia"),
        "EFA_PLUGIN": ("aws-efa-k8s-device-plugin-v0.5.20.tgz", b"efa"),
    }
    environment = build_environment(region_name="us-east-1", cluster_name="dpd")
    for name, (file, content) in files.items():
        (remote / file).write_bytes(content)
        environment[f"DPD_{name}_SHA256"] = _sha256(content)
    return Sandbox(
        state=state,
        environment={
            **environment,
            "PATH": f"{stubs}:{os.environ['PATH']}",
            "STATE": str(state),
            "TMPDIR": str(tmp_path),
            "HOME": str(tmp_path),
            "DPD_RETRY_SECONDS": "0",
        },
    )


def test_installs_in_order_and_does_not_wait_for_pods(sandbox: Sandbox) -> None:
    outcome = sandbox.run("install")
    assert outcome.code == 0, outcome.output
    steps = [
        "git",
        "curl",
        "aws eks update-kubeconfig",
        "kubectl auth",
        "helm list",
        "helm upgrade",
        "kubectl get",
    ]
    order = [next(step for step in steps if call.startswith(step)) for call in outcome.calls]
    assert list(dict.fromkeys(order)) == steps
    (upgrade,) = outcome.of("helm upgrade")
    assert "--install" in upgrade
    assert "--wait" not in upgrade
    assert f"health-monitoring-agent.hmaimage={IMAGE}" in upgrade
    assert (
        "aws-efa-k8s-device-plugin.image.repository=602401143452.dkr.ecr.us-east-1.amazonaws.com/eks/"
        in upgrade
    )


def test_the_pinned_commit_is_fetched_and_nothing_else(sandbox: Sandbox) -> None:
    outcome = sandbox.run("install")
    (fetch,) = [call for call in outcome.calls if " fetch " in call]
    assert fetch.endswith(f"{charts.DEPENDENCIES_CHART.repository} {charts.DEPENDENCIES_CHART.commit}")


def test_the_chart_is_complete_and_carries_no_old_package(sandbox: Sandbox) -> None:
    sandbox.run("install")
    installed = sandbox.state / "installed"
    assert sorted(path.name for path in (installed / "charts").iterdir()) == [
        "efa-plugin.tgz",
        "health-monitoring-agent",
        "nvidia-plugin.tgz",
    ]
    remaining = (installed / "Chart.yaml").read_text()
    assert "cert-manager" not in remaining
    assert "oci://" not in remaining
    assert remaining.count("  - name: ") == 2


def test_a_chart_that_has_changed_its_form_is_refused(sandbox: Sandbox) -> None:
    (sandbox.state / "chart" / "Chart.yaml").write_text(CHART_YAML.replace("cert-manager", "certs"))
    outcome = sandbox.run("install")
    assert outcome.code == 1
    assert "the chart has changed its form" in outcome.reason
    assert not outcome.of("helm upgrade")


@pytest.mark.parametrize("name", ["HELM", "KUBECTL", "NVIDIA_PLUGIN", "EFA_PLUGIN"])
def test_a_download_with_other_bytes_is_refused(sandbox: Sandbox, name: str) -> None:
    outcome = sandbox.run("install", **{f"DPD_{name}_SHA256": "0" * 64})
    assert outcome.code == 1
    assert f"expected {'0' * 64}: refused" in outcome.reason
    assert not outcome.of("helm", "kubectl")


def test_another_commit_is_refused(sandbox: Sandbox) -> None:
    (sandbox.state / "commit").write_text("f" * 40)
    outcome = sandbox.run("install")
    assert outcome.code == 1
    assert f"gave commit {'f' * 40}, expected {charts.DEPENDENCIES_CHART.commit}: refused" in outcome.reason
    assert not outcome.of("helm")


@pytest.mark.parametrize(
    ("what", "times"),
    [("git-fetch", 2), ("curl", 2), ("kubectl-auth", 29), ("helm-upgrade", 2)],
)
def test_a_passing_fault_is_retried(sandbox: Sandbox, what: str, times: int) -> None:
    sandbox.fail(what, times)
    outcome = sandbox.run("install")
    assert outcome.code == 0, outcome.output
    assert len(outcome.of("sleep 0")) == times


@pytest.mark.parametrize(
    ("what", "expected"),
    [
        ("git-fetch", "could not resolve host"),
        ("curl", "curl: (22) 503"),
        ("kubectl-auth", "You must be logged in to the server"),
        ("helm-upgrade", "UPGRADE FAILED: the server is on fire"),
        ("kubectl-get", "not in namespace aws-hyperpod"),
    ],
)
def test_a_lasting_fault_ends_with_its_own_words(sandbox: Sandbox, what: str, expected: str) -> None:
    sandbox.fail(what, 1000)
    outcome = sandbox.run("install")
    assert outcome.code == 1
    assert expected in outcome.reason


def test_a_health_agent_from_another_registry_is_a_failure(sandbox: Sandbox) -> None:
    (sandbox.state / "image").write_text("767398015722.dkr.ecr.us-east-1.amazonaws.com/agent:old")
    outcome = sandbox.run("install")
    assert outcome.code == 1
    assert outcome.reason.endswith(f"agent:old, expected {IMAGE}")


def test_a_release_locked_by_an_unfinished_build_is_rolled_back(sandbox: Sandbox) -> None:
    (sandbox.state / "pending").write_text("hyperpod-dependencies\n")
    outcome = sandbox.run("install")
    assert outcome.code == 0, outcome.output
    assert [call.split()[1] for call in outcome.of("helm")] == ["list", "rollback", "upgrade"]


def test_a_first_installation_that_never_finished_is_removed(sandbox: Sandbox) -> None:
    (sandbox.state / "pending").write_text("hyperpod-dependencies\n")
    sandbox.fail("helm-rollback", 1)
    outcome = sandbox.run("install")
    assert outcome.code == 0, outcome.output
    assert [call.split()[1] for call in outcome.of("helm")] == ["list", "rollback", "uninstall", "upgrade"]


def test_uninstalls_without_fetching_the_chart(sandbox: Sandbox) -> None:
    outcome = sandbox.run("uninstall")
    assert outcome.code == 0, outcome.output
    assert outcome.of("helm") == [
        "helm uninstall hyperpod-dependencies --namespace kube-system --ignore-not-found"
    ]
    assert not outcome.of("git")


def test_uninstalling_from_a_cluster_that_is_gone_is_done(sandbox: Sandbox) -> None:
    (sandbox.state / "cluster-gone").touch()
    outcome = sandbox.run("uninstall")
    assert outcome.code == 0, outcome.output
    assert not outcome.of("helm", "kubectl", "curl")


def test_a_cluster_that_cannot_be_asked_about_is_not_taken_for_gone(sandbox: Sandbox) -> None:
    sandbox.fail("aws-describe", 1)
    outcome = sandbox.run("uninstall")
    assert outcome.code == 1
    assert "AccessDeniedException: not you" in outcome.reason


@pytest.fixture
def archive(sandbox: Sandbox) -> Callable[[], str]:
    def pack() -> str:
        file = sandbox.state / "archive.tar.gz"
        outcome = sandbox.run("archive", str(file))
        assert outcome.code == 0, outcome.output
        (sandbox.state / "calls").unlink()
        return _sha256(file.read_bytes())

    return pack


def test_the_archive_that_it_packs_installs_without_the_internet(
    sandbox: Sandbox, archive: Callable[[], str]
) -> None:
    outcome = sandbox.run(
        "install",
        DPD_SOURCE="s3",
        DPD_ARCHIVE_URI="s3://mine/dependencies.tar.gz",
        DPD_ARCHIVE_SHA256=archive(),
    )
    assert outcome.code == 0, outcome.output
    assert not outcome.of("git", "curl")
    assert outcome.of("helm upgrade")
    assert outcome.of("aws s3 cp")[0].split()[4] == "s3://mine/dependencies.tar.gz"


def test_an_archive_with_other_bytes_is_refused(sandbox: Sandbox, archive: Callable[[], str]) -> None:
    archive()
    outcome = sandbox.run(
        "install", DPD_SOURCE="s3", DPD_ARCHIVE_URI="s3://mine/x.tar.gz", DPD_ARCHIVE_SHA256="0" * 64
    )
    assert outcome.code == 1
    assert outcome.reason.endswith(f"expected {'0' * 64}: refused")
    assert not outcome.of("helm", "kubectl")


def test_a_tool_inside_the_archive_is_checked_as_well(sandbox: Sandbox, archive: Callable[[], str]) -> None:
    outcome = sandbox.run(
        "install",
        DPD_SOURCE="s3",
        DPD_ARCHIVE_URI="s3://mine/x.tar.gz",
        DPD_ARCHIVE_SHA256=archive(),
        DPD_HELM_SHA256="0" * 64,
    )
    assert outcome.code == 1
    assert outcome.reason.startswith("helm.tar.gz has sha256")


def test_an_unexpected_failure_names_its_line(sandbox: Sandbox) -> None:
    (sandbox.state / "chart" / "Chart.yaml").unlink()
    outcome = sandbox.run("install")
    assert outcome.code != 0
    assert outcome.reason.startswith("line ")


def test_leaves_nothing_behind(sandbox: Sandbox) -> None:
    sandbox.run("install")
    assert sorted(path.name for path in Path(sandbox.environment["TMPDIR"]).iterdir()) == ["state", "stubs"]


@pytest.mark.parametrize("arguments", [[], ["deploy"], ["archive"]])
def test_an_unknown_action_is_refused(sandbox: Sandbox, arguments: list[str]) -> None:
    outcome = sandbox.run(*arguments)
    assert outcome.code == 1
    assert (
        "expected install, uninstall or archive FILE" in outcome.reason
        or "name of the file" in outcome.reason
    )


def test_the_archive_is_packed_with_the_catalogs_pins(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    for name in list(os.environ):
        monkeypatch.delenv(name)
    for name, value in sandbox.environment.items():
        if not name.startswith("DPD_") or name == "DPD_RETRY_SECONDS":
            monkeypatch.setenv(name, value)
    # the stub's download is not the real one, and the catalog's digest says so
    assert archive_module.main([str(sandbox.state / "archive.tar.gz")]) == 1
    assert f"expected {charts.HELM.sha256}: refused" in capfd.readouterr().err
    assert not (sandbox.state / "archive.tar.gz").exists()


@pytest.mark.parametrize("arguments", [[], ["one", "two"]])
def test_packing_needs_one_file_name(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert archive_module.main(arguments) == 2
    assert "usage: " in capsys.readouterr().err
