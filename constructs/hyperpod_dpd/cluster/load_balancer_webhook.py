"""The load balancer controller's webhook, which fails closed: while it does not answer, nobody makes an Ingress."""

from typing import Final

from hyperpod_dpd.readiness.access import REHEARSAL_NAMESPACE
from hyperpod_dpd.readiness.requirements import WebhookAnswers

INGRESS_WEBHOOK: Final = WebhookAnswers(
    plural="ingresses",
    body={
        "apiVersion": "networking.k8s.io/v1",
        "kind": "Ingress",
        # without a class, so that the controller has nothing to find fault with
        "metadata": {"name": "hyperpod-dpd-rehearsal", "namespace": REHEARSAL_NAMESPACE},
        "spec": {"defaultBackend": {"service": {"name": "rehearsal", "port": {"number": 80}}}},
    },
)
