"""Images in the account's registry: the project's own, built there, and copies of public ones."""

from hyperpod_dpd.images.mirror import PublicImageMirror, account_registry
from hyperpod_dpd.images.project_images import ProjectImages

__all__ = ["ProjectImages", "PublicImageMirror", "account_registry"]
