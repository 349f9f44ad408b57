"""Cases of the rules about what the file says."""

from tests.unit.rules.example import Bad, Example

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
)
