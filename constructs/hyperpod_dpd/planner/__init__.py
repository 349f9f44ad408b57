"""The plan: does it fit, is it worth it, what does it cost, before anyone pays for an instance.

Names are imported when they are first used: the cost of a deployment needs no simulation.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hyperpod_dpd.planner.cost import HourlyBurn as HourlyBurn
    from hyperpod_dpd.planner.cost import hourly_burn as hourly_burn
    from hyperpod_dpd.planner.plan import Plan as Plan
    from hyperpod_dpd.planner.plan import make_plan as make_plan
    from hyperpod_dpd.planner.predict import one_rank_of as one_rank_of
    from hyperpod_dpd.planner.predict import predict_colocated as predict_colocated
    from hyperpod_dpd.planner.step import StepModel as StepModel
    from hyperpod_dpd.planner.step import step_model as step_model
    from hyperpod_dpd.planner.summary import Summary as Summary

_EXPORTS = {
    "HourlyBurn": "hyperpod_dpd.planner.cost",
    "hourly_burn": "hyperpod_dpd.planner.cost",
    "Plan": "hyperpod_dpd.planner.plan",
    "make_plan": "hyperpod_dpd.planner.plan",
    "one_rank_of": "hyperpod_dpd.planner.predict",
    "predict_colocated": "hyperpod_dpd.planner.predict",
    "StepModel": "hyperpod_dpd.planner.step",
    "step_model": "hyperpod_dpd.planner.step",
    "Summary": "hyperpod_dpd.planner.summary",
}

__all__ = list(_EXPORTS)


if not TYPE_CHECKING:  # for a type checker it would make every misspelled name an `object`

    def __getattr__(name: str) -> object:
        module = _EXPORTS.get(name)
        if module is None:
            raise AttributeError(f"module `hyperpod_dpd.planner` has no `{name}`")
        found = getattr(import_module(module), name)
        globals()[name] = found
        return found
