"""The network: addresses by zone id, ways out, and the security group that EFA needs."""

from hyperpod_dpd.network.efa import EfaSecurityGroup
from hyperpod_dpd.network.endpoints import InterfaceEndpoints
from hyperpod_dpd.network.interface import ClusterNetwork, ExistingNetwork
from hyperpod_dpd.network.network import DpdNetwork

__all__ = ["ClusterNetwork", "DpdNetwork", "EfaSecurityGroup", "ExistingNetwork", "InterfaceEndpoints"]
