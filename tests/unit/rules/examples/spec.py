"""Cases of the rules about what the file says."""

from tests.unit.rules.example import Bad, Example

_PRICE = {"instance_type": "ml.p5.48xlarge", "usd_per_hour": 40, "as_of": "2026-11-01", "source": "contract"}

EXAMPLES = (
    Example(
        rule="DPD-SPEC-002",
        good=({"name": "a"}, {"name": "llama-70b"}, {"name": "x" * 40}),
        bad=(
            Bad(case={"name": "Llama_3.3"}, at="name", mentions=("`name: Llama_3.3`", "`llama-3-3`")),
            Bad(case={"name": "70b"}, at="name", mentions=("a letter first",)),
            Bad(case={"name": "llama-"}, at="name", mentions=("`llama`",)),
            Bad(case={"name": "a--b"}, at="name", mentions=("`a-b`",)),
            Bad(case={"name": "llämä"}, at="name"),
        ),
    ),
    Example(
        rule="DPD-SPEC-003",
        good=({"region": "eu-west-1"},),
        bad=(
            Bad(case={"region": "us-esat-1"}, at="region", mentions=("`us-west-1` or `us-east-1`?",)),
            Bad(case={"region": "mars-1"}, at="region", mentions=("us-west-2",)),
        ),
    ),
    Example(
        rule="DPD-SPEC-004",
        good=({"account": "012345678901"}, {}),
        bad=(Bad(case={"account": "12345678901x"}, at="account", mentions=("12345678901x", "12 digits")),),
    ),
    Example(
        rule="DPD-SPEC-005",
        good=(
            {"tags": {"cost-center": "", "team:owner": "a+b@example.com"}},
            {"tags": {"k" * 128: "v" * 256}},
        ),
        bad=(
            Bad(case={"tags": {"aws:team": "x"}}, at="tags.aws:team", mentions=("no `aws:`",)),
            Bad(case={"tags": {"k" * 129: "x"}}, at=f"tags.{'k' * 129}"),
            Bad(case={"tags": {"k": "v" * 257}}, at="tags.k", mentions=("256",)),
            Bad(case={"tags": {"k": "a;b"}}, at="tags.k", mentions=("a;b",)),
            Bad(case={"tags": {f"k{n}": "" for n in range(41)}}, at="tags", mentions=("41", "40")),
        ),
    ),
    Example(
        rule="DPD-SPEC-008",
        good=(
            {},
            {"slo.ttft_p95_seconds": 60.0, "slo.tpot_p95_seconds": 0.01},
            {"serving.backend": "operator", "slo.ttft_p95_seconds": 600.0},
        ),
        bad=(
            Bad(
                case={"slo.tpot_p95_seconds": 0.009},
                at="slo.tpot_p95_seconds",
                mentions=("0.009", "0.01 to 80 seconds"),
            ),
            Bad(
                case={"slo.ttft_p95_seconds": 61.0},
                at="slo.ttft_p95_seconds",
                mentions=("61", "0.001 to 60 seconds"),
            ),
        ),
    ),
    Example(
        rule="DPD-SPEC-007",
        good=(
            {},
            {"platform.alerts.topic_arn": "arn:aws:sns:us-east-1:123456789012:alerts"},
            {
                "account": "123456789012",
                "platform.alerts.topic_arn": "arn:aws:sns:us-east-1:123456789012:alerts",
            },
        ),
        bad=(
            Bad(
                case={"platform.alerts.topic_arn": "arn:aws:sns:eu-west-1:123456789012:alerts"},
                at="platform.alerts.topic_arn",
                mentions=("eu-west-1", "`us-east-1`"),
            ),
            Bad(
                case={
                    "account": "210987654321",
                    "platform.alerts.topic_arn": "arn:aws:sns:us-east-1:123456789012:alerts",
                },
                at="platform.alerts.topic_arn",
                mentions=("`123456789012`", "`210987654321`"),
            ),
        ),
    ),
    Example(
        rule="DPD-SPEC-006",
        good=(
            {},
            {
                "prices": [
                    {"instance_type": name, "usd_per_hour": 40, "as_of": "2026-11-01", "source": "contract"}
                    for name in ("ml.p5.48xlarge", "ml.p5en.48xlarge")
                ]
            },
        ),
        bad=(
            Bad(
                case={"prices": [{**_PRICE, "instance_type": "ml.p5.48xlrge"}]},
                at="prices[0].instance_type",
                mentions=("`ml.p5.48xlarge`",),
            ),
            Bad(case={"prices": [_PRICE, _PRICE]}, at="prices[1].instance_type", mentions=("two prices",)),
            Bad(
                case={"prices": [{**_PRICE, "as_of": "soon"}]},
                at="prices[0].as_of",
                mentions=("soon", "YYYY"),
            ),
            Bad(case={"prices": [{**_PRICE, "as_of": "2026-02-30"}]}, at="prices[0].as_of"),
        ),
    ),
    Example(
        rule="DPD-SPEC-009",
        good=(
            {"platform.grafana": "managed"},
            {"platform.grafana": "managed", "platform.scraping": "none"},
            {
                "platform.grafana": "self-hosted",
                "platform.scraping": "none",
                "platform.observability_addon": False,
            },
        ),
        bad=(
            Bad(
                case={
                    "platform.grafana": "managed",
                    "platform.scraping": "none",
                    "platform.observability_addon": False,
                },
                at="platform.grafana",
                mentions=("`grafana: managed`", "`scraping: none`", "`observability_addon: false`"),
            ),
        ),
    ),
    Example(
        rule="DPD-SPEC-010",
        good=(
            {"platform.exporters": "manifests", "platform.scraping": "prometheus-operator"},
            {"platform.exporters": "manifests", "platform.observability_addon": False},
            {"platform.exporters": "none", "platform.scraping": "prometheus-operator"},
            # nothing is evaluated
            {"platform.scraping": "none", "platform.observability_addon": False},
        ),
        bad=(
            Bad(
                case={"platform.scraping": "prometheus-operator"},
                at="platform.exporters",
                mentions=("`exporters: observability-addon`", "`scraping: prometheus-operator`"),
            ),
            Bad(
                case={"platform.observability_addon": False},
                at="platform.exporters",
                mentions=("`exporters: observability-addon`", "`observability_addon: false`"),
            ),
        ),
    ),
    Example(
        rule="DPD-SPEC-011",
        good=(
            {
                "platform.scraping": "prometheus-operator",
                "platform.scraping_labels": {"release": "monitoring"},
            },
            {"platform.scraping_labels": {}},
        ),
        bad=(
            Bad(
                case={"platform.scraping_labels": {"release": "monitoring"}},
                at="platform.scraping_labels",
                mentions=("`scraping: collector`", "`scraping: prometheus-operator`"),
            ),
        ),
    ),
)
