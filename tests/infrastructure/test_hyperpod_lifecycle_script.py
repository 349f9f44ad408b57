"""`on_create.sh` under bash with stub tools: containerd and kubelet end up on the node's NVMe."""

import os
import re
import stat
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from hyperpod_dpd.storage import lifecycle_scripts

FOLDER = Path(lifecycle_scripts.__file__).parent / "lifecycle"
SCRIPT = FOLDER / "on_create.sh"

# `mounted` lists what is mounted; mounting a unit adds its target
MOUNTPOINT = """#!/usr/bin/env bash
echo "mountpoint $*" >>"$STATE/calls"
[[ -e "$STATE/late" && ! -e "$STATE/waited" ]] && exit 1
grep -qxF "${2#"$DPD_ROOT"}" "$STATE/mounted"
"""
SYSTEMCTL = """#!/usr/bin/env bash
echo "systemctl $*" >>"$STATE/calls"
case "$1" in
  is-active) grep -qxF "$3" "$STATE/active" ;;
  stop) sed -i "/^$2\\$/d" "$STATE/active" ;;
  start) echo "$2" >>"$STATE/active" ;;
  enable)
    [[ -e "$STATE/broken-mount" ]] && exit 0
    sed -n 's/^Where=//p' "$DPD_ROOT/etc/systemd/system/$3" >>"$STATE/mounted"
    ;;
esac
"""
CONTAINERD = """#!/usr/bin/env bash
cat "$STATE/containerd-config" 2>/dev/null
"""
ESCAPE = """#!/usr/bin/env bash
path=${3#/}
echo "${path//\\//-}.mount"
"""
SLEEP = """#!/usr/bin/env bash
echo "sleep $*" >>"$STATE/calls"
touch "$STATE/waited"
"""
LSBLK = """#!/usr/bin/env bash
echo "nvme0n1 500G /"
"""
STUBS = {
    "mountpoint": MOUNTPOINT,
    "systemctl": SYSTEMCTL,
    "containerd": CONTAINERD,
    "systemd-escape": ESCAPE,
    "sleep": SLEEP,
    "lsblk": LSBLK,
    "sync": "#!/usr/bin/env bash\n",
}


@dataclass
class Node:
    root: Path
    state: Path
    environment: dict[str, str]

    def run(self, **changes: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", str(SCRIPT)],
            env={**self.environment, **changes},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    @property
    def calls(self) -> list[str]:
        return (self.state / "calls").read_text().splitlines()

    def unit(self, name: str) -> str:
        return (self.root / "etc/systemd/system" / name).read_text()


@pytest.fixture
def node(tmp_path: Path) -> Node:
    root, state, stubs = tmp_path / "root", tmp_path / "state", tmp_path / "stubs"
    for folder in (root, state, stubs):
        folder.mkdir()
    for name, body in STUBS.items():
        stub = stubs / name
        stub.write_text(body)
        stub.chmod(stub.stat().st_mode | stat.S_IXUSR)
    (state / "mounted").write_text("/opt/dlami/nvme\n")
    (state / "active").write_text("")
    for content in ("var/lib/containerd/image", "var/lib/kubelet/config"):
        (root / content).parent.mkdir(parents=True)
        (root / content).write_text("was here before")
    return Node(
        root=root,
        state=state,
        environment={
            "PATH": f"{stubs}:{os.environ['PATH']}",
            "STATE": str(state),
            "DPD_ROOT": str(root),
        },
    )


@pytest.mark.parametrize(
    ("directory", "unit"),
    [
        ("/var/lib/containerd", "var-lib-containerd.mount"),
        ("/var/lib/kubelet", "var-lib-kubelet.mount"),
    ],
)
def test_is_mounted_from_nvme_before_the_services_start(node: Node, directory: str, unit: str) -> None:
    result = node.run()
    assert result.returncode == 0, result.stdout + result.stderr
    text = node.unit(unit)
    assert f"What=/opt/dlami/nvme/dpd{directory}\nWhere={directory}\nType=none\nOptions=bind" in text
    assert "RequiresMountsFor=/opt/dlami/nvme" in text
    assert "Before=containerd.service kubelet.service" in text
    assert directory in (node.state / "mounted").read_text().splitlines()
    assert f"systemctl enable --now {unit}" in node.calls


def test_what_was_there_before_comes_along(node: Node) -> None:
    node.run()
    for moved in ("var/lib/containerd/image", "var/lib/kubelet/config"):
        assert (node.root / "opt/dlami/nvme/dpd" / moved).read_text() == "was here before"


def test_another_containerd_root_is_moved_instead(node: Node) -> None:
    (node.state / "containerd-config").write_text('version = 2\nroot = "/data/containerd"\nstate = "/run"\n')
    assert node.run().returncode == 0
    assert "Where=/data/containerd" in node.unit("data-containerd.mount")
    assert not (node.root / "etc/systemd/system/var-lib-containerd.mount").exists()


def test_waits_for_the_nvme_mount(node: Node) -> None:
    (node.state / "late").touch()
    result = node.run()
    assert result.returncode == 0, result.stdout + result.stderr
    assert "sleep 5" in node.calls


def test_a_node_without_nvme_fails_and_says_what_it_has(node: Node) -> None:
    (node.state / "mounted").write_text("")
    result = node.run(DPD_MOUNT_WAIT_SECONDS="10")
    assert result.returncode == 1
    log = (node.root / "var/log/provision/provisioning.log").read_text()
    assert "error: /opt/dlami/nvme is not mounted after 10 seconds: nvme0n1 500G /" in log
    # the agent needs a minute to upload the log
    assert node.calls[-1] == "sleep 70"


def test_a_mount_that_does_not_appear_fails(node: Node) -> None:
    (node.state / "broken-mount").touch()
    result = node.run()
    assert result.returncode == 1
    assert "/var/lib/containerd was not mounted from /opt/dlami/nvme/dpd/var/lib/containerd" in result.stdout


def test_running_services_are_stopped_for_the_move_and_started_again(node: Node) -> None:
    (node.state / "active").write_text("containerd\nkubelet\n")
    assert node.run().returncode == 0
    services = [call for call in node.calls if call.split()[1] in {"stop", "start", "enable"}]
    assert services == [
        "systemctl stop kubelet",
        "systemctl stop containerd",
        "systemctl enable --now var-lib-containerd.mount",
        "systemctl enable --now var-lib-kubelet.mount",
        "systemctl start containerd",
        "systemctl start kubelet",
    ]


def test_services_that_do_not_run_yet_are_left_to_the_agent(node: Node) -> None:
    assert node.run().returncode == 0
    assert not [call for call in node.calls if call.split()[1] in {"stop", "start"}]


def test_a_second_run_changes_nothing(node: Node) -> None:
    node.run()
    before = (node.state / "mounted").read_text()
    (node.state / "calls").unlink()
    assert node.run().returncode == 0
    assert (node.state / "mounted").read_text() == before
    assert not [call for call in node.calls if "enable" in call]


def test_needs_no_network_and_no_file_beside_it() -> None:
    text = SCRIPT.read_text()
    assert not re.search(r"\b(curl|wget|git|yum|dnf|apt-get|pip|aws)\b", text)
    assert not re.search(r"^\s*(source|\.) ", text, re.MULTILINE)


def test_every_uploaded_file_has_unix_line_ends_and_the_script_is_executable() -> None:
    for file in FOLDER.iterdir():
        assert b"\r" not in file.read_bytes(), file
    assert SCRIPT.stat().st_mode & stat.S_IXUSR
    assert SCRIPT.read_text().startswith("#!/usr/bin/env bash\n")
