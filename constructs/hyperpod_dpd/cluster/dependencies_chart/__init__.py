"""The HyperPod dependencies chart, installed by a build inside the VPC."""

from hyperpod_dpd.cluster.dependencies_chart.chart import HyperPodDependencies
from hyperpod_dpd.cluster.dependencies_chart.environment import build_environment, download_environment

__all__ = ["HyperPodDependencies", "build_environment", "download_environment"]
