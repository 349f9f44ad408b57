"""`dpd schema`: the JSON Schema of a deployment file."""

from argparse import ArgumentParser, Namespace

from hyperpod_dpd.cli.command import Command
from hyperpod_dpd.cli.exits import Exit
from hyperpod_dpd.cli.output import print_json
from hyperpod_dpd.spec.schema import json_schema


def _add_arguments(_parser: ArgumentParser) -> None:
    """Take no arguments."""


def _run(_arguments: Namespace) -> Exit:
    print_json(json_schema())
    return Exit.OK


COMMAND = Command(
    description="""\
Print the JSON Schema of a deployment file, so that editors complete and check it.

example: dpd schema > deployment.schema.json
Then put this line at the top of a deployment file:
# yaml-language-server: $schema=deployment.schema.json""",
    add_arguments=_add_arguments,
    run=_run,
)
