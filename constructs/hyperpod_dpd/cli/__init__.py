"""The `dpd` command."""


def main() -> None:
    """Run the command line and exit; imports happen here so that importing the package stays cheap."""
    import sys  # noqa: PLC0415

    from hyperpod_dpd.cli.app import run  # noqa: PLC0415

    sys.exit(run(sys.argv[1:]))
