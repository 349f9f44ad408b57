"""What rendered objects pull a public image as."""

from hyperpod_dpd.derive.mirror import in_account
from hyperpod_dpd.serving.bindings import Binding
from hyperpod_dpd.spec import Deployment


def pulled(image: str, deployment: Deployment) -> str:
    """Return the name under which nodes pull `image`: its own, or that of its copy in the account's registry."""
    return in_account(image, deployment, registry=Binding.MIRROR_REGISTRY.placeholder)
