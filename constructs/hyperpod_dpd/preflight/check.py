"""What a preflight check is, and what it can say."""

from collections.abc import Callable, Iterable

from hyperpod_dpd.preflight.account import Account
from hyperpod_dpd.preflight.call import Call
from hyperpod_dpd.rules.finding import Problem
from hyperpod_dpd.spec import Deployment
from hyperpod_dpd.spec.value import record


@record
class Gap:
    """Something that a check could not look at. It is neither fine nor wrong; nobody knows."""

    what: str
    """What stays unknown, lower case."""

    why: str
    """Why it could not be looked at."""

    fix: str
    """What to do."""

    needs: str | None = None
    """IAM action that is missing, when that is the reason."""

    by_organization: bool = False
    """Whether a service control policy refused the call: it will refuse the deployment's calls, too."""

    @property
    def message(self) -> str:
        """One sentence: what, why, fix."""
        return f"could not check {self.what}: {self.why}. help: {self.fix}"

    def as_dict(self) -> dict[str, str | bool | None]:
        """Return the gap as plain data for JSON."""
        return {
            "what": self.what,
            "why": self.why,
            "fix": self.fix,
            "needs": self.needs,
            "by_organization": self.by_organization,
        }


Look = Callable[[Deployment, Account], Iterable[Problem | Gap]]


def always(_deployment: Deployment) -> bool:
    """Return True: the check concerns every deployment."""
    return True


def creates_cluster(deployment: Deployment) -> bool:
    """Whether the deployment makes cluster and HyperPod itself."""
    return deployment.cluster.existing is None


def creates_network(deployment: Deployment) -> bool:
    """Whether the deployment makes a VPC for its cluster."""
    return creates_cluster(deployment) and deployment.network.existing is None


@record
class Check:
    """One question to the account."""

    id: str
    """Stable id, `PRE-<AREA>-<NNN>`."""

    title: str
    """What must be true."""

    calls: tuple[Call, ...]
    """Every API call that it may make; the IAM policy is derived from them, and a test records that there are no others."""

    look: Look
    """Ask and yield what is wrong or could not be seen. Errors of AWS may pass through: the runner turns them into gaps."""

    applies: Callable[[Deployment], bool] = always
    """Whether a deployment gives reason to ask."""

    @property
    def actions(self) -> tuple[str, ...]:
        """IAM actions that its calls take."""
        return tuple(sorted({call.action for call in self.calls if call.action is not None}))
