"""`python -m dpd_router`."""

from dpd_router.cli import main

if __name__ == "__main__":
    main()
