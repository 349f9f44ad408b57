"""The operator backend: one InferenceEndpointConfig, AWS's supported path."""

from hyperpod_dpd.serving.operator.endpoint import InferenceEndpoint

__all__ = ["InferenceEndpoint"]
