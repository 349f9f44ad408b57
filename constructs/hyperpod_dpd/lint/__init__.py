"""Lint: the rules of this project over Kubernetes manifests that anyone wrote.

`read` turns files into nodes that know their lines, `recognise` says what the nodes are (workers, routers, policies),
`check` runs the manifest rules over it. What is not understood is said to be so, never passed over.
"""

from hyperpod_dpd.lint.check import LintReport, lint_manifests
from hyperpod_dpd.lint.read import UnreadableManifestError

__all__ = ["LintReport", "UnreadableManifestError", "lint_manifests"]
