"""The `dpd` command."""


def main() -> None:
    """Run the command line; imports happen here so that importing the package stays cheap."""
    from hyperpod_dpd.cli.app import app  # noqa: PLC0415

    app()
