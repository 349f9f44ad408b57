"""Images in the account's registry: the project's own, built there, and copies of public ones."""

from hyperpod_dpd.images.mirror import PublicImageMirror
from hyperpod_dpd.images.project_images import ProjectImages
from hyperpod_dpd.images.registry import account_registry

__all__ = ["ProjectImages", "PublicImageMirror", "account_registry"]
