"""Every metric in a rule or a dashboard exists: the router or a simulated engine exposes it, or a source names it."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from prometheus_client import CollectorRegistry
from prometheus_client.multiprocess import MultiProcessCollector

from dpd_router.metrics import Metrics
from dpd_simulator import EngineConfig, LMCacheConfig
from dpd_simulator.config import NixlConfig
from dpd_simulator.metrics import EngineMetrics
from hyperpod_dpd.catalog.histograms import ROUTER_TTFT_BUCKETS, TPOT_BUCKETS, WORKER_TTFT_BUCKETS
from hyperpod_dpd.derive.backend import on_backend
from hyperpod_dpd.observability.dashboards import BOARDS
from hyperpod_dpd.observability.metrics import EXTERNAL_METRICS
from hyperpod_dpd.observability.rules import Recording, definition, rule_groups
from tests.support.deployments import changed, ready
from tests.support.prometheus import check_rules

_NAME = re.compile(
    r"\b(?:(?:vllm|lmcache|dpd):[\w:]+|dpd_router_\w+|node_amazonefa_\w+|DCGM_FI_\w+|up(?=\{|,|\)))"
)


def exposed(registry: CollectorRegistry) -> set[str]:
    """Return the names of every sample that a registry can have, also of metrics without a series yet."""
    names = set()
    for metric in registry.collect():
        suffixes = {
            "counter": ("_total",),
            "histogram": ("_bucket", "_count", "_sum"),
            "info": ("_info",),
        }.get(metric.type, ("",))
        names |= {metric.name + suffix for suffix in suffixes}
    return names


def known() -> set[str]:
    engines = (
        EngineConfig(lmcache=LMCacheConfig()),
        EngineConfig(nixl=NixlConfig()),
    )
    return {
        *exposed(Metrics().registry),
        *(name for engine in engines for name in exposed(EngineMetrics(engine).registry)),
        *EXTERNAL_METRICS,
    }


def expressions() -> Iterator[str]:
    p5 = ready()
    for disaggregates in (True, False):
        for described in (p5, changed(p5, platform__exporters="manifests"), on_backend(p5, "operator")):
            for group in rule_groups(described, disaggregates=disaggregates):
                yield from (rule.expression for rule in group.rules)
    yield from (query.expression for board in BOARDS for panel in board.panels for query in panel.queries)


def recorded() -> set[str]:
    return {
        rule.name for group in rule_groups(ready()) for rule in group.rules if isinstance(rule, Recording)
    }


def test_every_metric_exists() -> None:
    used = {name for each in expressions() for name in _NAME.findall(each)}
    assert len(used) > 50
    assert used - known() - recorded() == set()


def test_the_search_finds_a_name_that_nobody_exposes() -> None:
    assert _NAME.findall('rate(vllm:gpu_cache_usage_perc{deployment="x"}[5m])') == [
        "vllm:gpu_cache_usage_perc"
    ]
    assert "vllm:gpu_cache_usage_perc" not in known(), "it is the name of an older vLLM"


def test_no_source_is_kept_for_a_metric_that_nothing_uses() -> None:
    used = {name for each in expressions() for name in _NAME.findall(each)}
    assert set(EXTERNAL_METRICS) <= used


def test_what_is_recorded_is_read_or_shown() -> None:
    used = {name for each in expressions() for name in _NAME.findall(each)}
    windows = {name for name in recorded() if "_slo_misses" in name}
    assert recorded() - windows <= used


def test_buckets_of_the_slo_are_those_of_the_programs() -> None:
    router = Metrics().ttft.labels("direct")
    engine = EngineMetrics(EngineConfig()).per_output_token
    first = EngineMetrics(EngineConfig()).ttft
    assert tuple(router._upper_bounds[:-1]) == ROUTER_TTFT_BUCKETS
    assert tuple(first._upper_bounds[:-1]) == WORKER_TTFT_BUCKETS
    assert tuple(engine._upper_bounds[:-1]) == TPOT_BUCKETS


def test_every_rule_passes_promtool(tmp_path: Path) -> None:
    p5 = ready()
    for described in (
        p5,
        changed(p5, platform__exporters="manifests"),
        changed(p5, serving__transfer__type="nixl"),
        on_backend(p5, "operator"),
        changed(p5, routing__threshold_tokens="never"),
        changed(p5, routing__threshold_tokens=0),
        changed(p5, slo__ttft_p95_seconds=0.75, slo__tpot_p95_seconds=0.03),
    ):
        for disaggregates in (True, False):
            groups = rule_groups(described, disaggregates=disaggregates)
            check_rules(definition(groups, deployment=described), tmp_path)


def test_without_a_router_to_read_no_rule_asks_for_its_metrics() -> None:
    operated = on_backend(ready(), "operator")
    for group in rule_groups(operated):
        for rule in group.rules:
            if not rule.name.startswith("dpd:"):
                assert "dpd_router" not in rule.expression, rule.name
                assert 'job="dpd-router"' not in rule.expression, rule.name


COMPUTED_IN_ANOTHER_PROCESS = """
from prometheus_client import Counter, Gauge
health = Gauge("lmcache:lmcache_is_healthy", "Health", ["worker_id"], multiprocess_mode="livemostrecent")
health.labels("0").set_function(lambda: 0)
Counter("lmcache:num_store_requests", "Stores", ["worker_id"]).labels("0").inc(0)
"""


def test_what_lmcache_computes_when_asked_is_not_in_the_files_that_vllm_serves(tmp_path: Path) -> None:
    # therefore no rule may read its health; a counter is there before its first event
    subprocess.run(
        [sys.executable, "-c", COMPUTED_IN_ANOTHER_PROCESS],
        env={"PROMETHEUS_MULTIPROC_DIR": str(tmp_path)},
        check=True,
    )
    registry = CollectorRegistry()
    MultiProcessCollector(registry, path=str(tmp_path))  # type: ignore[no-untyped-call]
    samples = {sample.name: sample.value for metric in registry.collect() for sample in metric.samples}
    assert samples == {"lmcache:num_store_requests_total": 0.0}
    assert "lmcache:lmcache_is_healthy" not in known()
