"""`dpd bind`: an account's values in rendered manifests, or every reason why not."""

import json
from pathlib import Path

import pytest
import yaml

from hyperpod_dpd.cli.app import run
from hyperpod_dpd.serving.bindings import Binding, BindingError, bind, read_values

DIGEST = "0123456789abcdef" * 4
IMAGE = f"123456789012.dkr.ecr.us-east-1.amazonaws.com/dpd-worker@sha256:{DIGEST}"
RENDERED = (
    Path(__file__).resolve().parents[3] / "manifests" / "rendered" / "llama-3-3-70b-p5" / "self-managed"
)
VALUES = {
    "WORKER_IMAGE": IMAGE,
    "ROUTER_IMAGE": IMAGE.replace("worker", "router"),
    "MODEL_BUCKET": "dpd-models-123456789012",
}


@pytest.fixture
def outputs(tmp_path: Path) -> Path:
    """What `cdk deploy --outputs-file` writes."""
    path = tmp_path / "outputs.json"
    stacks = {
        "p5-platform": {"BindWorkerImage": VALUES["WORKER_IMAGE"], "BindRouterImage": VALUES["ROUTER_IMAGE"]},
        "p5-storage": {"BindModelBucket": VALUES["MODEL_BUCKET"], "Endpoint": "https://example"},
    }
    path.write_text(json.dumps(stacks))
    return path


def test_stack_outputs_fill_every_binding(
    outputs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "bound"
    assert run(["bind", str(RENDERED), "--outputs", str(outputs), "--to", str(target)]) == 0
    assert capsys.readouterr().out == f"{target}: 8 files, every binding filled\n"
    assert {path.name for path in target.iterdir()} == {path.name for path in RENDERED.iterdir()}
    text = "".join(path.read_text() for path in target.iterdir())
    assert "${dpd:" not in text
    assert "dpd bind" not in text
    decode = next(
        entry
        for entry in yaml.safe_load_all((target / "decode.yaml").read_text())
        if entry["kind"] == "Deployment"
    )
    template = decode["spec"]["template"]
    assert template["spec"]["containers"][0]["image"] == IMAGE
    assert template["metadata"]["labels"]["hyperpod-dpd/generation"].endswith(f"-{DIGEST[:12]}")


def test_without_a_folder_the_objects_go_to_standard_output(
    outputs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["bind", str(RENDERED), "--outputs", str(outputs)]) == 0
    kinds = [entry["kind"] for entry in yaml.safe_load_all(capsys.readouterr().out)]
    assert "Kustomization" not in kinds
    assert kinds.count("Deployment") == 3


def test_a_value_on_the_command_line_wins(outputs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["bind", str(RENDERED), "--outputs", str(outputs), "--set", "MODEL_BUCKET=another-bucket"]
    assert run(arguments) == 0
    assert "s3://another-bucket/models/" in capsys.readouterr().out


def test_every_missing_binding_is_named_once_and_nothing_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "bound"
    assert run(["bind", str(RENDERED), "--to", str(target)]) == 2
    errors = capsys.readouterr().err.splitlines()
    assert sorted(line.split("`")[1] for line in errors) == [
        "MODEL_BUCKET",
        "ROUTER_IMAGE",
        "WORKER_IMAGE",
        "WORKER_IMAGE_ID",
    ]
    assert all("help: give `--set" in line for line in errors)
    assert not target.exists()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (
            ["--set", "WORKER_IMAGE=vllm/vllm-openai:latest"],
            "`WORKER_IMAGE` does not fit: given `vllm/vllm-openai:latest`",
        ),
        (["--set", "MODEL_BUCKET=Not_A_Bucket"], "`MODEL_BUCKET` does not fit"),
        (["--set", "MODEL_BUKET=a"], "unknown binding `MODEL_BUKET`"),
        (["--set", "MODEL_BUCKET"], "`--set MODEL_BUCKET` is not an assignment"),
        (["--outputs", "missing.json"], "`missing.json` is not a file of stack outputs"),
    ],
)
def test_what_cannot_be_right_is_refused(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["bind", str(RENDERED), *arguments]) == 2
    error = capsys.readouterr().err
    assert says in error
    assert "help: " in error


@pytest.mark.parametrize("text", ["[]", '{"stack": []}', "not json"])
def test_a_file_that_is_not_stack_outputs_is_refused(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "outputs.json"
    path.write_text(text)
    assert run(["bind", str(RENDERED), "--outputs", str(path)]) == 2
    assert "is not a file of stack outputs" in capsys.readouterr().err


def test_outputs_of_two_deployments_are_not_mixed(outputs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stacks = json.loads(outputs.read_text())
    stacks["p5en-storage"] = {"BindModelBucket": "other-models"}
    outputs.write_text(json.dumps(stacks))
    assert run(["bind", str(RENDERED), "--outputs", str(outputs)]) == 2
    assert (
        "disagree on `MODEL_BUCKET`: given `dpd-models-123456789012`, `other-models`"
        in capsys.readouterr().err
    )
    chosen = ["--set", "MODEL_BUCKET=other-models"]
    assert run(["bind", str(RENDERED), "--outputs", str(outputs), *chosen]) == 0
    assert "s3://other-models/" in capsys.readouterr().out


def test_a_folder_without_manifests_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bind", str(tmp_path)]) == 2
    assert "no YAML file in" in capsys.readouterr().err


def test_the_bindings_of_a_profile_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bind", str(RENDERED), "--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == [
        "WORKER_IMAGE",
        "WORKER_IMAGE_ID",
        "ROUTER_IMAGE",
        "MODEL_BUCKET",
    ]
    assert "name of the bucket that holds the weights (stack output `BindModelBucket`)" in lines[3]


def test_an_image_id_follows_from_the_image_and_cannot_contradict_it() -> None:
    assert read_values({"WORKER_IMAGE": IMAGE})[Binding.WORKER_IMAGE_ID] == DIGEST[:12]
    with pytest.raises(BindingError, match=r"given `ffffffffffff`, computed `0123456789ab`"):
        read_values({"WORKER_IMAGE": IMAGE, "WORKER_IMAGE_ID": "f" * 12})


def test_an_unknown_placeholder_is_not_passed_over() -> None:
    with pytest.raises(BindingError, match="unknown binding `MODEL_BUKET`"):
        bind("s3://${dpd:MODEL_BUKET}/", {Binding.MODEL_BUCKET: "bucket"})


def test_bindings_can_be_outputs_of_stacks() -> None:
    keys = [binding.output_key for binding in Binding]
    assert len(set(keys)) == len(keys)
    assert all(key.isalnum() for key in keys)
