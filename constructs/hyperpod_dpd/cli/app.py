"""Commands that need no AWS account: check, schema, explain."""

from typing import Annotated

import typer

from hyperpod_dpd.cli.check import check_command
from hyperpod_dpd.cli.explain import explain_command
from hyperpod_dpd.cli.schema import schema_command

app = typer.Typer(
    name="dpd",
    help="Disaggregated prefill and decode on SageMaker HyperPod: check, plan, prove.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command("check")(check_command)
app.command("schema")(schema_command)
app.command("explain")(explain_command)


def _print_version(wanted: bool) -> None:  # noqa: FBT001
    if wanted:
        from hyperpod_dpd._version import __version__  # noqa: PLC0415

        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[  # noqa: FBT002
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit."),
    ] = False,
) -> None:
    """Disaggregated prefill and decode on SageMaker HyperPod: check, plan, prove.

    Exit codes: 0 nothing to mend, 1 findings, 2 input that cannot be read.
    """
