"""Whether this router is the only one: two that hand over at once would share buffers and notifications.

The books of a router know nothing of another's hand-offs, and a prefiller's notification reaches one
of the two. While a rolling update runs both, each decodes everything directly.
"""

import ipaddress
import logging

from dpd_router.config import DiscoveryPolicy
from dpd_router.metrics import Metrics
from dpd_router.slices import SliceWatch

log = logging.getLogger(__name__)


class OtherRouters(SliceWatch):
    """The routers besides this one that their Service lists, whether ready, starting or ending.

    Attributes:
        alone: there is none; false until the Service has been read.
    """

    def __init__(self, policy: DiscoveryPolicy, metrics: Metrics) -> None:
        super().__init__(policy.router_namespace or policy.namespace, policy.router_service)
        self._own = policy.own_addresses
        self._metrics = metrics
        self.alone = not policy.router_service

    def apply(self) -> None:
        """Count the others."""
        others = {
            endpoint.addresses[0]
            for item in self.slices.values()
            for endpoint in item.endpoints or ()
            if not any(_plain(address) in self._own for address in endpoint.addresses)
        }
        self._metrics.other_routers.set(len(others))
        if self.alone == bool(others):
            self.alone = not others
            log.info(
                "alone: hand-offs begin" if self.alone else "another router: everything is decoded directly",
                extra={"fields": {"others": sorted(others)}},
            )


def _plain(address: str) -> str:
    """Return an IP address in its shortest form."""
    try:
        return str(ipaddress.ip_address(address))
    except ValueError:  # a name, which is none of this router's addresses
        return address
