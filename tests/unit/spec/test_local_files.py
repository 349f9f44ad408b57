"""Files that a deployment names lie beside it, wherever the command is run."""

from pathlib import Path

from hyperpod_dpd.spec.load import load

DEPLOYMENT = Path(__file__).parents[3] / "deployments/llama-3.3-70b-p5.yaml"


def test_named_files_are_relative_to_the_deployment_file(tmp_path: Path) -> None:
    text = DEPLOYMENT.read_text(encoding="utf-8")
    text = text.replace("model:\n", "model:\n  config_file: geometry/config.json\n")
    text = text.replace("traffic:\n", "traffic:\n  trace_file: /var/trace.jsonl\n")
    path = tmp_path / "mine.yaml"
    path.write_text(text, encoding="utf-8")
    deployment = load(path).deployment
    assert deployment.model.config_file == str(tmp_path / "geometry/config.json")
    assert deployment.traffic.trace_file == "/var/trace.jsonl"
