"""`python -m hyperpod_dpd` is the `dpd` command."""

from hyperpod_dpd.cli import main

if __name__ == "__main__":
    main()
