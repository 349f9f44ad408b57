"""What a rehearsal runs that the library itself does not need."""

import importlib.util
from typing import Final

from hyperpod_dpd.rehearsal.trouble import Kind, RefusedError, Trouble

_PACKAGES: Final = ("aiohttp", "dpd_router", "dpd_simulator")


def refuse_without_packages() -> None:
    """Check that what the containers run is installed.

    Raises:
        RefusedError: naming what is missing.
    """
    missing = [name for name in _PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        raise RefusedError(
            (
                Trouble(
                    kind=Kind.ELSEWHERE,
                    says=f"{' and '.join(f'`{name}`' for name in missing)} cannot be imported: the containers' programs "
                    "are not on this machine",
                    fix="install the distributions `dpd-router` and `dpd-simulator`, as `make setup` does in a checkout",
                ),
            )
        )
