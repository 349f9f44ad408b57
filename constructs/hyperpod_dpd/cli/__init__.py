"""The `dpd` command."""


def main() -> None:
    """Run the command line and exit; imports happen here so that importing the package stays cheap."""
    import signal  # noqa: PLC0415
    import sys  # noqa: PLC0415

    # While Python still reads its modules an interruption has nothing to undo: it ends the process as it ends any other,
    # without a traceback. Whoever ignores it for this process, as `nohup` does, goes on to be obeyed.
    handler = signal.getsignal(signal.SIGINT)
    if handler is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from hyperpod_dpd.cli.app import run  # noqa: PLC0415

    sys.exit(run(sys.argv[1:], before=lambda: signal.signal(signal.SIGINT, handler)))
