"""Room in the templates: what CloudFormation allows is far away, for the largest deployment too."""

import json

import pytest

from tests.support.synth import deployments, synthesize

SHARE = 0.6
"""Most of any limit that a template may use, so that options still fit."""

LIMITS = {"bytes": 1_000_000, "Resources": 500, "Outputs": 200, "Parameters": 200}
"""CloudFormation quotas: size of a template in S3, and entries of its sections."""


@pytest.mark.parametrize("name", ["llama-3.3-70b-p5-p5en", "every-option", "closed"])
def test_every_template_leaves_room(name: str) -> None:
    too_large = []
    for part, template in synthesize(deployments()[name]).templates.items():
        used = {"bytes": len(json.dumps(template, indent=1).encode())}
        used |= {section: len(template.get(section, {})) for section in LIMITS if section != "bytes"}
        too_large += [
            f"{part}: {used[what]} {what}" for what, limit in LIMITS.items() if used[what] > SHARE * limit
        ]
    assert too_large == []
