"""The script that starts an engine: it counts a decoder's starts and gives every one its own ports."""

from importlib.resources import files
from typing import Final

from hyperpod_dpd.serving.engine.values import ConfigFile
from hyperpod_dpd.serving.names import CONFIG_DIRECTORY

LAUNCHER_FILE: Final = "start-worker.sh"
"""Name of the script in the configuration directory."""

LAUNCHER_COMMAND: Final = ("/bin/sh", f"{CONFIG_DIRECTORY}/{LAUNCHER_FILE}")
"""Entry point of every worker; its arguments are the engine's command line."""

EPOCH_ALIAS_PREFIX: Final = "dpd-epoch-"
"""A decoder serves its model under this name and the number of its start as well; the router reads it."""


def launcher() -> ConfigFile:
    """Return the script."""
    text = files("hyperpod_dpd.serving.engine").joinpath(LAUNCHER_FILE).read_text(encoding="utf-8")
    return ConfigFile(name=LAUNCHER_FILE, text=text)
