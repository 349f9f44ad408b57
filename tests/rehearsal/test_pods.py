"""Pods as the kubelet would start them: variables, files, Secrets."""

from pathlib import Path

from hyperpod_dpd.rehearsal.container import PodView, environment_of, expanded
from hyperpod_dpd.rehearsal.pods import SECRET_VALUE, read_pods
from tests.rehearsal.support import planned


def test_references_are_written_out_as_the_kubelet_does() -> None:
    known = {"A": "1", "B": "2"}
    assert expanded("$(A)-$(B)", known) == "1-2"
    assert expanded("$(C) and $A", known) == "$(C) and $A"
    assert expanded("$$(A)", known) == "$(A)"


def test_paths_below_a_mount_lead_into_the_pods_folder_and_nothing_else_does(tmp_path: Path) -> None:
    plan = planned(tmp_path, {})
    decode = next(each.plan for each in plan.placements if each.plan.name == "decode")
    (container,) = decode.containers
    view = PodView(folder=tmp_path, address="127.9.9.9", fields={})
    config, temporary = view.volume("config"), view.volume("tmp")
    assert view.local("/etc/dpd/start-worker.sh", container) == f"{config}/start-worker.sh"
    assert view.local("--file=/tmp/a:/etc/dpd", container) == f"--file={temporary}/a:{config}"
    assert view.local("/etc/dpdx /srv/tmp /tmpfs", container) == "/etc/dpdx /srv/tmp /tmpfs"
    assert view.local("http://127.0.0.1:8000 1127.0.0.1", container) == "http://127.9.9.9:8000 1127.0.0.1"


def test_the_environment_is_that_of_the_manifest_with_fields_of_the_pod(tmp_path: Path) -> None:
    fields = "        - name: POD\n              valueFrom:\n                fieldRef:\n                  fieldPath: status.podIP\n"
    use = "            - name: URL\n              value: http://$(POD):1/$(NOBODY)\n"
    edit = ("          env:\n", f"          env:\n    {fields}{use}")
    plan = planned(tmp_path, {"decode.yaml": [edit]})
    assert plan.troubles == ()
    decode = next(each.plan for each in plan.placements if each.plan.name == "decode")
    view = PodView(folder=tmp_path, address="127.9.9.9", fields={"status.podIP": "127.9.9.9"})
    environment = environment_of(decode.containers[0], view)
    assert environment["URL"] == "http://127.9.9.9:1/$(NOBODY)"
    assert environment["PYTHONHASHSEED"] == "0"
    assert environment["DPD_LMCACHE_TEMPLATE"] == str(view.volume("config") / "lmcache.yaml")


def test_a_secret_that_external_secrets_makes_can_be_mounted(tmp_path: Path) -> None:
    external = """
---
apiVersion: external-secrets.io/v1
kind: ExternalSecret
metadata: {name: keys, namespace: llama-3-3-70b-p5-system}
spec: {target: {name: router-keys}, data: [{secretKey: keys, remoteRef: {key: k}}]}
"""
    mount = "      volumes:\n        - name: keys\n          secret:\n            secretName: router-keys\n"
    edit = ("      volumes:\n        - name: tmp\n", f"{mount}        - name: tmp\n")
    without = planned(tmp_path / "without", {"router.yaml": [edit]})
    assert [each.says for each in without.troubles if "Secret `router-keys`" in each.says]
    folder = tmp_path / "with"
    plan = planned(
        folder,
        {"router.yaml": [edit, ("---\napiVersion: policy/v1", f"{external}---\napiVersion: policy/v1")]},
    )
    assert plan.troubles == ()
    router = next(each for each in read_pods(plan.manifests).plans if each.name == "router")
    assert list(router.files["keys"]) == ["keys"]


def test_clients_bring_a_key_where_the_router_asks_for_one(tmp_path: Path) -> None:
    assert planned(tmp_path / "open", {}).api_key is None
    asks = ("--threshold=4096", "--threshold=4096\n            - --api-keys-file=/etc/keys/keys")
    assert planned(tmp_path / "closed", {"router.yaml": [asks]}).api_key == SECRET_VALUE
