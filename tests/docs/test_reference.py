"""Generated reference pages leave nothing out. That they are up to date, `make drift` says."""

import re

from dpd_router.metrics import Metrics
from hyperpod_dpd.cli.app import COMMANDS, full_parser
from hyperpod_dpd.spec.schema import json_schema
from tools import docs_cli, docs_deployment, docs_diagrams, docs_library, docs_metrics


def test_every_key_of_the_file_is_on_the_page_once_in_its_section() -> None:
    page = docs_deployment.page()
    sections = dict(
        re.findall(r'^## [^\n]* <a id="(\w+)"></a>\n(.*?)(?=^## |\Z)', page, flags=re.MULTILINE | re.DOTALL)
    )
    schema = json_schema()
    objects = {name: body for name, body in schema["$defs"].items() if "properties" in body}
    assert set(sections) == {"deployment", *(name.lower() for name in objects)}
    for name, body in {**objects, "deployment": schema}.items():
        keys = re.findall(r"^\| `(\w+)` \|", sections[name.lower()], flags=re.MULTILINE)
        assert keys == list(body["properties"]), name


def test_links_between_sections_lead_to_one() -> None:
    page = docs_deployment.page()
    assert set(re.findall(r"\]\(#(\w+)\)", page)) <= set(re.findall(r'<a id="(\w+)">', page))


def test_every_command_and_every_option_is_on_the_page() -> None:
    page = docs_cli.page()
    for name, parser in docs_cli.subcommands(full_parser()).items():
        section = re.search(rf"^## dpd {name}\n(.*?)(?=^## |\Z)", page, flags=re.MULTILINE | re.DOTALL)
        assert section is not None, name
        for option in re.findall(r"--[a-z][a-z-]+", parser.format_usage()):
            assert option in section[1], f"{name} {option}"
    assert set(docs_cli.subcommands(full_parser())) == set(COMMANDS)


def test_every_public_name_has_a_heading_or_a_section_of_the_file() -> None:
    assert docs_library.unplaced() == []


def test_every_metric_of_the_router_is_on_the_page() -> None:
    page = docs_metrics.page()
    names = {metric.name for metric in Metrics().registry.collect() if metric.name.startswith("dpd_router_")}
    assert names
    assert {name for name in names if f"`{name}" not in page} == set()


def test_the_picture_of_flows_shows_each_connection_that_a_policy_lets_through() -> None:
    picture = docs_diagrams.flows()
    for words in ("clients", "router", "prefill", "decode", "KV cache over EFA", "7500", "8081", "8000"):
        assert f">{words}" in picture
