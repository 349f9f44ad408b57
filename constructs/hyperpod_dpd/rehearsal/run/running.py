"""A profile whose pods are ready: what everything that sends it requests shares."""

from collections.abc import Iterator
from typing import Final

import aiohttp

from hyperpod_dpd.planner.workload import LengthSource, SpreadLengths
from hyperpod_dpd.rehearsal.cluster import LocalCluster
from hyperpod_dpd.rehearsal.options import Options
from hyperpod_dpd.rehearsal.plan import RehearsalPlan
from hyperpod_dpd.rehearsal.prompts import Request, requests
from hyperpod_dpd.rehearsal.traffic import Clients, Patience
from hyperpod_dpd.rehearsal.watch import Watch
from hyperpod_dpd.spec import Deployment
from hyperpod_dpd.spec.value import record

MIXED_SEED: Final = 900_001
_MIXED_OUTPUT_TOKENS: Final = 64
"""At most; what mixed traffic is about is where prompts go."""


@record
class RunningProfile:
    """A profile whose pods are ready, and who sends it requests."""

    cluster: LocalCluster
    deployment: Deployment
    options: Options
    watch: Watch
    session: aiohttp.ClientSession
    """Of the clients."""

    @property
    def plan(self) -> RehearsalPlan:
        """What runs."""
        return self.cluster.plan

    def clients(self, *, leaving_share: float = 0.0) -> Clients:
        """Return clients of the router's Service, of whom `leaving_share` leave after their first token."""
        key = self.plan.api_key
        return Clients(
            self.session,
            self.cluster.endpoint,
            compression=self.options.compression,
            patience=Patience(leaving_share=leaving_share),
            headers=None if key is None else {"Authorization": f"Bearer {key}"},
        )

    def requests(self, lengths: LengthSource, *, seed: int) -> Iterator[Request]:
        """Yield requests to the model that is served, without end."""
        return requests(self.plan.served_model, lengths, seed=seed)

    @property
    def mixed_lengths(self) -> LengthSource:
        """Long and short prompts, as many of each: what the threshold is for."""
        options = self.options
        return SpreadLengths(
            long_tokens=options.input_tokens,
            short_tokens=self.deployment.traffic.short_input_tokens,
            long_share=0.5,
            output_tokens=min(_MIXED_OUTPUT_TOKENS, options.output_tokens),
            input_variation=0.0,
            output_variation=0.0,
            longest_tokens=self.deployment.serving.max_model_len_tokens,
        )
