"""What `dpd init` writes is a deployment: it is read, checked, planned and synthesized."""

from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest

from hyperpod_dpd.draft.choose import Draft, draft
from hyperpod_dpd.draft.questions import QUESTIONS, Answers
from hyperpod_dpd.draft.text import deployment_text
from hyperpod_dpd.planner import make_plan
from hyperpod_dpd.rules.check import check
from hyperpod_dpd.spec import Deployment
from hyperpod_dpd.spec.load import load
from stacks.build import build

_P5, _P5E, _P5EN = "ml.p5.48xlarge", "ml.p5e.48xlarge", "ml.p5en.48xlarge"
_COMMIT = "0123456789abcdef0123456789abcdef01234567"

_COMBINATIONS = (
    ("llama-3.3-70b-instruct", _P5, _P5, "us-east-1", "use1-az6", 4096, 256, 32, 3, 0.05),
    ("llama-3.1-8b-instruct", _P5, _P5, "us-west-2", "usw2-az2", 8000, 500, 200, 3, 0.05),
    ("llama-3.1-70b-instruct", _P5EN, _P5EN, "us-east-2", "use2-az1", 16000, 1000, 64, 5, 0.04),
    ("qwen2.5-32b-instruct", _P5, _P5EN, "eu-north-1", "eun1-az1", 2000, 400, 128, 3, 0.05),
    ("qwen2.5-72b-instruct", _P5E, _P5E, "ap-northeast-1", "apne1-az4", 6000, 300, 50, 3, 0.05),
    ("mistral-large-2-123b-instruct", _P5EN, _P5EN, "us-west-1", "usw1-az2", 12000, 800, 40, 4, 0.06),
    ("mixtral-8x22b-instruct", _P5EN, _P5EN, "eu-west-1", "euw1-az3", 5000, 500, 64, 3, 0.05),
    ("deepseek-v3", _P5EN, _P5EN, "us-east-1", "use1-az3", 4096, 512, 32, 5, 0.08),
    ("llama-3.3-70b-instruct", _P5, _P5EN, "sa-east-1", "sae1-az1", 100000, 1000, 16, 60, 0.05),
    ("mistral-large-2-123b-instruct", _P5, _P5, "ap-south-1", "aps1-az1", 60, 200, 8, 0.001, 0.01),
)
"""Model, both instance types, region, zone, prompt, answer, in flight, TTFT, TPOT. The last promises too much."""


def _answers(combination: tuple[Any, ...]) -> Answers:
    model, *others = combination
    values: dict[str, Any] = dict(
        zip((question.name for question in QUESTIONS), (model, _COMMIT, *others), strict=True)
    )
    return Answers(**values)


@pytest.fixture(scope="module", params=_COMBINATIONS, ids=lambda row: f"{row[0]}-{row[3]}")
def drafted(request: pytest.FixtureRequest) -> Draft:
    return draft(_answers(request.param), name="drafted")


@pytest.fixture(scope="module")
def read_back(drafted: Draft, tmp_path_factory: pytest.TempPathFactory) -> Deployment:
    file: Path = tmp_path_factory.mktemp("drafts") / "drafted.yaml"
    text = deployment_text(drafted, schema="deployment.schema.json", command="dpd init drafted.yaml")
    assert text.startswith("# yaml-language-server: $schema=deployment.schema.json\n")
    assert max(map(len, text.splitlines())) <= 500
    file.write_text(text, encoding="utf-8")
    return load(file).deployment


@pytest.mark.xdist_group("drafts")
class TestDraftedFile:
    def test_says_in_text_exactly_what_was_drafted(self, drafted: Draft, read_back: Deployment) -> None:
        assert read_back == drafted.deployment

    def test_passes_check(self, read_back: Deployment) -> None:
        assert check(read_back).findings == ()

    def test_plans_and_the_verdict_is_the_one_in_its_comments(
        self, drafted: Draft, read_back: Deployment
    ) -> None:
        plan = make_plan(read_back)
        assert plan.fits
        assert plan.verdict is not None
        text = deployment_text(drafted, schema="s", command="c")
        comments = " ".join(line.strip("# ") for line in text.splitlines() if line.startswith("#"))
        assert plan.verdict.text in comments
        assert str(plan.burn) in comments

    def test_routes_by_the_threshold_that_the_planner_recommends(self, read_back: Deployment) -> None:
        advice = make_plan(read_back).threshold
        assert advice is not None
        longest = read_back.serving.max_model_len_tokens
        expected = advice.recommended_tokens if advice.recommended_tokens <= longest else "never"
        assert read_back.routing.threshold_tokens == expected

    def test_synthesizes(self, read_back: Deployment) -> None:
        app = cdk.App()
        build(app, read_back)
        templates = [stack.template for stack in app.synth().stacks]
        groups = [
            group["InstanceCount"]
            for template in templates
            for resource in template["Resources"].values()
            if resource["Type"] == "AWS::SageMaker::Cluster"
            for group in resource["Properties"]["InstanceGroups"]
        ]
        assert groups == [group.count for group in read_back.hyperpod.instance_groups]

    def test_puts_eks_where_it_accepts_interfaces(self, drafted: Draft) -> None:
        zones = drafted.deployment.network.cluster_zone_ids
        assert len(set(zones)) == 2
        assert not {"use1-az3", "usw1-az2"} & set(zones)
