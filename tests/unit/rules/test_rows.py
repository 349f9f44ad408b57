"""Every row of the public failures is accounted for, and every default is held by a test that exists."""

import ast
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from hyperpod_dpd.rules import Rule, Subject, rules

ROOT: Final = Path(__file__).parents[3]

ROWS: Final = (
    *(f"L{number}" for number in range(1, 23)),
    *(f"V{number}" for number in range(1, 13)),
    *(f"E{number}" for number in range(1, 18)),
    *(f"R{number}" for number in range(1, 15)),
)
"""Public failures of LMCache PD, vLLM, EFA with NIXL, and routers."""

FINDINGS: Final = (*(f"H{number}" for number in range(1, 15)), "H1b")
"""What a hand-off really does, measured and read."""

HELD_BY: Final[dict[str, tuple[str, ...]]] = {
    "DPD-SRV-515": (
        "tests/unit/serving/engine/test_hand_off.py::test_lmcache_runs_under_the_first_model_runner_and_nixl_is_free",
    ),
    "DPD-SRV-005": (
        "tests/unit/serving/engine/test_hand_off.py::test_values_that_have_to_be_equal_are_equal",
        "tests/manifests/test_workers.py::test_an_incompatible_change_replaces_both_roles_and_their_services",
    ),
    "DPD-SRV-103": (
        "tests/router/test_failures.py::test_every_rank_has_to_notify",
        "tests/manifests/test_router.py::test_the_router_counts_with_the_buffers_and_ports_that_decoders_have",
        "tests/unit/serving/engine/test_launcher.py::test_every_restart_of_a_decoder_takes_the_next_ports_and_says_so",
    ),
    "DPD-SRV-112": (
        (
            "tests/unit/serving/engine/test_hand_off.py::"
            "test_the_sender_knows_the_router_and_the_receiver_binds_its_own_address"
        ),
        "tests/manifests/test_wiring.py::test_prefillers_notify_the_host_and_port_of_the_router_service",
    ),
    "DPD-SRV-113": (
        (
            "tests/unit/serving/engine/test_hand_off.py::"
            "test_the_sender_knows_the_router_and_the_receiver_binds_its_own_address"
        ),
    ),
    "DPD-SRV-114": (
        "tests/unit/serving/engine/test_worker.py::test_no_probe_sends_a_prompt",
        "tests/manifests/test_network_policies.py::test_nothing_else_is_open_between_pods",
    ),
    "DPD-SRV-115": (
        "tests/unit/serving/engine/test_hand_off.py::test_the_decoder_alone_leaves_out_exactly_one_token",
        "tests/router/simulator/test_handoff.py::test_a_proxy_that_forwards_the_same_prompt_dies_after_87_requests",
    ),
    "DPD-SRV-116": (
        (
            "tests/unit/serving/engine/test_hand_off.py::"
            "test_partial_chunks_are_handed_over_and_sockets_have_names_of_their_own"
        ),
    ),
    "DPD-SRV-120": (
        "tests/router/test_failures.py::test_every_rank_has_to_notify",
        "tests/router/test_failures.py::test_transfer_that_fails_behind_a_200_breaks_the_pair",
        "tests/router/simulator/test_handoff.py::test_reading_chunks_before_they_are_written_changes_the_text",
    ),
    "DPD-SRV-122": (
        (
            "tests/unit/serving/engine/test_hand_off.py::"
            "test_partial_chunks_are_handed_over_and_sockets_have_names_of_their_own"
        ),
    ),
    "DPD-SRV-202": (
        (
            "tests/unit/serving/engine/test_hand_off.py::"
            "test_nixl_names_libfabric_on_both_sides_and_advertises_the_pods_address"
        ),
    ),
    "DPD-SRV-203": (
        "tests/manifests/test_serving_defaults.py::test_no_pod_is_told_about_services_by_variables",
    ),
    "DPD-SRV-204": (
        "tests/unit/serving/engine/test_hand_off.py::test_the_connector_has_only_fields_that_every_version_takes",
        "tests/engines/test_vllm_parser.py::test_every_worker_command_is_accepted_as_it_was_meant",
    ),
    "DPD-SRV-206": (
        "tests/unit/serving/engine/test_hand_off.py::test_the_connector_has_only_fields_that_every_version_takes",
    ),
    "DPD-SRV-212": ("tests/unit/serving/engine/test_worker.py::test_larger_weights_get_more_time_to_load",),
    "DPD-SRV-301": (
        "tests/manifests/test_workers.py::test_a_worker_takes_its_gpus_and_their_share_of_efa",
        "tests/manifests/test_values.py::test_devices_huge_pages_and_memory_are_requested_as_they_are_limited",
    ),
    "DPD-SRV-305": ("tests/manifests/test_workers.py::test_prefill_and_decode_never_share_a_node",),
    "DPD-SRV-307": (
        "tests/manifests/test_serving_defaults.py::test_workers_may_lock_memory_and_nothing_else",
    ),
    "DPD-SRV-308": (
        "tests/unit/serving/engine/test_hand_off.py::test_efa_is_the_provider_and_shared_memory_is_off",
    ),
    "DPD-SRV-402": ("tests/manifests/test_router.py::test_there_is_never_a_second_router_that_hands_over",),
    "DPD-SRV-406": ("tests/manifests/test_router.py::test_the_threshold_keeps_its_meaning",),
    "DPD-SRV-411": (
        "tests/router/test_failures.py::test_slow_client_does_not_fill_the_router_s_memory",
        "tests/router/test_failures.py::test_client_gone_within_the_answer_ends_the_decoder_s_request",
    ),
    "DPD-SRV-412": (
        "tests/router/test_public_failures.py::test_a_prefiller_makes_one_token_whatever_the_client_asks_for",
    ),
    "DPD-SRV-413": (
        (
            "tests/router/test_public_failures.py::"
            "test_a_prompt_shorter_than_a_chunk_is_decoded_directly_even_at_threshold_zero"
        ),
    ),
    "DPD-SRV-414": (
        "tests/manifests/test_serving_defaults.py::test_metrics_of_the_router_have_a_prefix_of_their_own",
    ),
    "DPD-SRV-502": (
        "tests/router/test_failures.py::test_client_gone_while_prefilling_is_drained",
        "tests/router/test_failures.py::test_client_gone_while_waiting_for_the_notification_is_drained",
        "tests/router/test_failures.py::test_shutdown_drains_what_requests_leave",
    ),
    "DPD-SRV-503": (
        "tests/router/simulator/test_handoff.py::test_tags_keep_requests_apart_and_a_hit_happens_once",
        "tests/router/test_equality.py::test_continued_answers_equal_direct_answers",
    ),
    "DPD-SRV-505": (
        "tests/router/test_failures.py::test_lost_notification_falls_back_and_the_landed_cache_is_drained",
    ),
    "DPD-SRV-508": (
        "tests/router/test_failures.py::test_no_room_is_decoded_directly_and_room_that_comes_is_used",
        "tests/router/test_failures.py::test_prompt_larger_than_the_buffer_is_decoded_directly",
    ),
    "DPD-SRV-510": ("tests/router/test_equality.py::test_continued_answers_equal_direct_answers",),
    "DPD-SRV-513": (
        "tests/manifests/test_network_policies.py::test_nothing_else_is_open_between_pods",
        "tests/manifests/test_network_policies.py::test_every_namespace_denies_by_default",
    ),
    "DPD-K8S-001": (
        "tests/security/test_pod_security.py::test_every_pod_is_restricted_except_for_what_is_pinned_here",
        "tests/security/test_admission_policy.py::test_a_pod_that_asks_for_more_is_refused_for_that_reason_alone",
    ),
    "DPD-K8S-002": (
        "tests/manifests/test_network_policies.py::test_every_namespace_denies_by_default",
        "tests/manifests/test_network_policies.py::test_every_flow_of_a_hand_off_is_open",
    ),
    "DPD-K8S-003": (
        "tests/manifests/test_wiring.py::test_every_workload_has_a_disruption_budget_that_lets_one_go",
        "tests/manifests/test_workers.py::test_no_worker_is_cut_off_within_the_longest_answer",
    ),
}
"""Tests that hold a default, by rule."""


def _of_serving(rule: Rule) -> bool:
    return rule.id.startswith(("DPD-SRV-", "DPD-K8S-"))


@cache
def _functions(path: str) -> frozenset[str]:
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, kinds))


def test_all_sixty_five_rows_and_every_finding_are_accounted_for() -> None:
    assert len(ROWS) == 65
    covered = {fact for rule in rules().values() for fact in rule.facts}
    assert {*ROWS, *FINDINGS} <= covered, sorted({*ROWS, *FINDINGS} - covered)


@pytest.mark.parametrize(
    ("area", "numbers"), [("SRV", range(1, 9)), ("K8S", range(1, 5))], ids=["serving", "kubernetes"]
)
def test_the_proposed_rules_exist(area: str, numbers: range) -> None:
    assert {f"DPD-{area}-{number:03d}" for number in numbers} <= rules().keys()


def test_every_rule_has_a_source_and_a_reason() -> None:
    for rule in rules().values():
        assert rule.sources, rule.id
        assert all(source.strip() for source in rule.sources), rule.id
        assert len(rule.why) > 40, rule.id


def test_titles_of_serving_rules_begin_as_sentences_within_one() -> None:
    for rule in filter(_of_serving, rules().values()):
        assert rule.title[0].islower() or rule.title[0] in "`0LNGPD", rule.id


def test_every_default_is_held_by_a_test_that_exists() -> None:
    defaults = {rule.id for rule in rules().values() if _of_serving(rule) and rule.subject is Subject.DEFAULT}
    assert defaults == HELD_BY.keys()
    for rule, tests in HELD_BY.items():
        for test in tests:
            path, _, function = test.partition("::")
            assert function in _functions(path), f"{rule}: there is no test `{test}`"


def test_rows_about_foreign_routers_say_that_they_cannot_be_written() -> None:
    foreign = {"R1", "R3", "R4", "R5", "R7", "R8"}
    found = {
        fact for rule in rules().values() if rule.subject is Subject.NOT_EXPRESSIBLE for fact in rule.facts
    }
    assert foreign <= found


def test_no_check_knows_the_engines_of_a_deployment_that_cannot_be_resolved() -> None:
    """Rules that cannot compute their number are silent, and the one that says why is not."""
    from hyperpod_dpd.rules import check  # noqa: PLC0415
    from tests.support.deployments import changed, ready  # noqa: PLC0415

    broken = changed(
        ready(),
        model__name="unknown",
        serving__engine__name="unknown",
        hyperpod__instance_groups__0__instance_type="ml.unknown",
    )
    found = [finding for finding in check(broken).errors if finding.rule.startswith(("DPD-SRV-", "DPD-HP-"))]
    assert {finding.rule for finding in found} == {"DPD-SRV-000", "DPD-HP-001"}
    assert {finding.problem.path for finding in found} == {
        "model.name",
        "serving.engine.name",
        "hyperpod.instance_groups[0].instance_type",
    }
