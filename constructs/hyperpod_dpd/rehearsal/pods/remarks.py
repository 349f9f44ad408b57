"""What is said while manifests are read."""

from hyperpod_dpd.lint.node import Node
from hyperpod_dpd.rehearsal.trouble import Kind, Trouble, trouble


class Remarks:
    """Collects what is wrong and what is left out, so that everything is said at once."""

    def __init__(self) -> None:
        self.troubles: list[Trouble] = []
        self.notes: list[str] = []
        """What is left out or stands in for something, on purpose."""

    def trouble(self, kind: Kind, node: Node, says: str, fix: str) -> None:
        """Add what is wrong at `node`."""
        self.troubles.append(trouble(kind, node, says, fix))

    def note(self, says: str) -> None:
        """Add what is another than on a cluster, and no mistake."""
        self.notes.append(says)
