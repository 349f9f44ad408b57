"""The proof program: does the KV cache really move, and stay where it should?

It sends prompts through the router and compares what everybody counted before and after. It runs in a small image
without CDK, so nothing here imports anything of the library but this package: the standard library and
`prometheus_client`.
"""

from hyperpod_dpd.evidence.proof.result import Finding, ProofResult, Verdict
from hyperpod_dpd.evidence.proof.run import prove
from hyperpod_dpd.evidence.proof.target import Target

__all__ = ["Finding", "ProofResult", "Target", "Verdict", "prove"]
