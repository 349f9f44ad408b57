"""AWS's own validator and cfn-lint over every template of every deployment: no errors, no unknown warnings."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from cloudformation_validate import (  # type: ignore[import-untyped]
    CompositeEngine,
    PseudoParameterOverrides,
    Severity,
    TemplateContent,
    ValidateConfig,
)

from tests.support.synth import deployments, synthesize

DEPLOYMENTS = deployments()
PARTS = ("network", "cluster", "hyperpod", "platform", "serving")
KNOWN_WARNINGS = {
    # CDK writes a DependsOn beside a reference to the same resource
    "W3005",
    # EKS takes encryption resources as a list that the schema calls deprecated; CDK's construct writes no other form
    "W9009",
    # administrators are ARNs by nature
    "W9002",
    "W9013",
}

TEMPLATES = [
    (name, part)
    for name, deployment in DEPLOYMENTS.items()
    # on a cluster of somebody else only the last two stacks are this deployment's
    for part in (PARTS if deployment.cluster.existing is None else PARTS[3:])
]


@pytest.fixture(scope="module")
def templates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all templates, named by deployment and stack."""
    folder = tmp_path_factory.mktemp("templates")
    for name, deployment in DEPLOYMENTS.items():
        for part, template in synthesize(deployment).templates.items():
            (folder / f"{name}.{part}.template.json").write_text(json.dumps(template))
    return folder


@pytest.fixture(scope="module")
def engine() -> CompositeEngine:
    return CompositeEngine()


def _findings(engine: CompositeEngine, template: str, region: str) -> list[str]:
    report = engine.validate_template(
        TemplateContent(content=template),
        ValidateConfig(pseudo_parameter_overrides=PseudoParameterOverrides(region=region)),
    )
    return [
        f"{finding.rule_id} {finding.property_path} {finding.message}"
        for finding in report.diagnostics
        if finding.severity.value >= Severity.WARN.value and finding.rule_id not in KNOWN_WARNINGS
    ]


@pytest.mark.parametrize(("name", "part"), TEMPLATES)
def test_cloudformation_validate_accepts(
    engine: CompositeEngine, templates: Path, name: str, part: str
) -> None:
    template = (templates / f"{name}.{part}.template.json").read_text()
    assert _findings(engine, template, DEPLOYMENTS[name].region) == []


@pytest.mark.parametrize(
    ("properties", "rule"),
    [
        ({"ThreadsPerCore": 7}, "ThreadsPerCore"),
        ({"InstanceCount": -1}, "InstanceCount"),
        ({"Placement": "near"}, "Placement"),
        ({"InstanceType": "ml.p5.96xlarge"}, "ml.p5.96xlarge"),
    ],
)
def test_cloudformation_validate_sees_what_it_is_there_for(
    engine: CompositeEngine, templates: Path, properties: dict[str, object], rule: str
) -> None:
    template = json.loads((templates / "llama-3.3-70b-p5.hyperpod.template.json").read_text())
    (cluster,) = [
        body for body in template["Resources"].values() if body["Type"] == "AWS::SageMaker::Cluster"
    ]
    cluster["Properties"]["InstanceGroups"][0].update(properties)
    assert any(rule in finding for finding in _findings(engine, json.dumps(template), "us-east-1"))


def test_cfn_lint_accepts(templates: Path) -> None:
    regions = sorted({deployment.region for deployment in DEPLOYMENTS.values()})
    files = sorted(map(str, templates.iterdir()))
    assert len(files) == len(TEMPLATES)
    result = subprocess.run(
        [
            str(Path(sys.executable).parent / "cfn-lint"),
            *("--format", "parseable", "--ignore-checks", *KNOWN_WARNINGS, "--regions", *regions, "--"),
            *files,
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.stdout == ""
    assert result.returncode == 0, result.stderr
