"""What a deployment file that is wrong gets told: file, line, and what was meant."""

import io
import sys
from pathlib import Path

import pytest

from hyperpod_dpd.spec import Platform
from hyperpod_dpd.spec.load import MAX_DEPTH, MAX_FILE_BYTES, Mistake, UnreadableDeploymentError, load

_DEFAULT = (Path(__file__).parents[3] / "deployments/llama-3.3-70b-p5.yaml").read_text(encoding="utf-8")


def _line_of(content: str, text: str) -> int:
    return next(number for number, line in enumerate(content.split("\n"), 1) if text in line)


def _mistakes(tmp_path: Path, content: str | bytes) -> tuple[Mistake, ...]:
    path = tmp_path / "deployment.yaml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(UnreadableDeploymentError) as refusal:
        load(path)
    return refusal.value.mistakes


def _only(tmp_path: Path, content: str | bytes) -> Mistake:
    (mistake,) = _mistakes(tmp_path, content)
    return mistake


@pytest.mark.parametrize(
    ("old", "new", "path", "message"),
    [
        (
            "      role: prefill",
            "      rol: prefill",
            "hyperpod.instance_groups[0].rol",
            "unknown key. help: did you mean `role`?",
        ),
        (
            "      role: prefill",
            "      role: prefil",
            "hyperpod.instance_groups[0].role",
            'should be `prefill`, `decode` or `colocated`, given `"prefil"`. help: did you mean `prefill`?',
        ),
        (
            "  tensor_parallel: 8",
            '  tensor_parallel: "8"',
            "serving.tensor_parallel",
            'should be a whole number, given `"8"`. help: write it without quotes: `8`',
        ),
        (
            "  tensor_parallel: 8",
            "  tensor_parallel: 8.5",
            "serving.tensor_parallel",
            "should be a whole number, given the number `8.5`",
        ),
        (
            "  tensor_parallel: 8",
            "  tensor_parallel: 0",
            "serving.tensor_parallel",
            "should be at least 1, given the number `0`",
        ),
        (
            "  threshold_tokens: 4096",
            "  threshold_tokens: sometimes",
            "routing.threshold_tokens",
            'should be a whole number or `never`, given `"sometimes"`',
        ),
        (
            "  threshold_tokens: 4096",
            "  threshold_tokens: -1",
            "routing.threshold_tokens",
            "should be at least 0 or `never`, given the number `-1`",
        ),
        (
            "region: us-east-1",
            "region: 1.30",
            "region",
            'should be text, given the number `1.30`. help: put it in quotes: `"1.30"`',
        ),
        (
            "region: us-east-1",
            "region: no",
            "region",
            'should be text, given `false`. help: put it in quotes: `"no"`',
        ),
        ("region: us-east-1", "region:", "region", "should be text, given nothing (`null`)"),
        ("region: us-east-1", "region: [a]", "region", "should be text, given a list"),
        (
            "  gpu_zone_id: use1-az6",
            '  gpu_zone_id: ""',
            "network.gpu_zone_id",
            'should have at least 1 character, given 0: `""`',
        ),
        (
            "name: llama-3-3-70b-p5",
            f"name: {'x' * 41}",
            "name",
            f'should have at most 40 characters, given 41: `"{"x" * 41}"`',
        ),
        (
            "  cluster_zone_ids: [use1-az6, use1-az4]",
            "  cluster_zone_ids: [use1-az6]",
            "network.cluster_zone_ids",
            "should have at least 2 items, given 1",
        ),
        (
            "model:\n",
            "cluster: {existing: {eks_name: theirs, hyperpod_name: theirs, prefix: /theirs}}\nmodel:\n",
            "cluster.existing.prefix",
            "unknown key. help: the keys here are `eks_name`, `hyperpod_name`, `parameter_prefix`",
        ),
        (
            "model:\n",
            "cluster: {existing: {eks_name: theirs}}\nmodel:\n",
            "cluster.existing.hyperpod_name",
            "is missing. help: name of the HyperPod cluster",
        ),
        (
            "  cluster_zone_ids: [use1-az6, use1-az4]",
            "  cluster_zone_ids: use1-az6",
            "network.cluster_zone_ids",
            'should be a list, given `"use1-az6"`',
        ),
        (
            "    type: s3",
            "    type: hugging-face",
            "model.source.type",
            (
                'should be one of `s3`, `huggingface`, `fsx`, `volume`, given `"hugging-face"`. '
                "help: did you mean `huggingface`?"
            ),
        ),
        (
            "    type: s3",
            "    bucket: b",
            "model.source",
            "has no `type`. help: add `type`; `dpd schema` lists what it can be",
        ),
        (
            "    type: s3",
            "    type: volume",
            "model.source.claim",
            "is missing. help: name of the PersistentVolumeClaim",
        ),
        (
            "  source:\n    type: s3",
            "  source: s3",
            "model.source",
            'should be a mapping, given `"s3"`',
        ),
        ("version: 1", "version: 2", "version", "should be 1, given the number `2`"),
        (
            "routing:\n  threshold_tokens: 4096",
            "routing:",
            "routing",
            "should be a mapping, given nothing (`null`). help: remove the key or give it a value",
        ),
        (
            "region: us-east-1",
            "region: us-east-1\nregion: us-west-2",
            "region",
            f"the key is given twice, first on line {_line_of(_DEFAULT, 'region: us-east-1')}",
        ),
        (
            "  input_tokens: 4096",
            "  input_tokens: .inf",
            "traffic.input_tokens",
            "`.inf` is not a finite number",
        ),
        (
            "region: us-east-1",
            "region: !!python/name:os.system x",
            "region",
            "not a value: could not determine a constructor for the tag 'tag:yaml.org,2002:python/name:os.system'",
        ),
        (
            "region: us-east-1",
            "region: !!binary aGVsbG8=",
            "region",
            "the YAML tag `tag:yaml.org,2002:binary` is refused. help: remove it",
        ),
        (
            "traffic:\n",
            "traffic: !!omap\n",
            "traffic",
            "the YAML tag `tag:yaml.org,2002:omap` is refused. help: remove it",
        ),
    ],
)
def test_mistake_is_named_with_its_line(tmp_path: Path, old: str, new: str, path: str, message: str) -> None:
    assert old in _DEFAULT
    content = _DEFAULT.replace(old, new, 1)
    mistake = _only(tmp_path, content)
    assert (mistake.path, mistake.says) == (path, message)
    # a line that was put in, or the one that names what is incomplete
    named = [*new.split("\n"), *(["  source:"] if path.startswith("model.source") else [])]
    assert mistake.line in {_line_of(content, line) for line in named}
    assert mistake.file == str(tmp_path / "deployment.yaml")


def test_every_mistake_is_reported_at_once_in_the_order_of_the_file(tmp_path: Path) -> None:
    content = (
        _DEFAULT.replace("region: us-east-1\n", "")
        .replace("count: 1", 'count: "1"')
        .replace("threshold_tokens: 4096", "threshold: 4096")
        .replace("concurrency: 32", "concurrency: 32\n  concurrency: 33")
    )
    mistakes = _mistakes(tmp_path, content)
    assert [mistake.path for mistake in mistakes] == [
        "region",
        "hyperpod.instance_groups[0].count",
        "hyperpod.instance_groups[1].count",
        "routing.threshold",
        "traffic.concurrency",
    ]
    assert mistakes[0].says == "is missing. help: AWS region"


def test_bad_items_are_not_also_called_too_few(tmp_path: Path) -> None:
    mistakes = _mistakes(
        tmp_path, _DEFAULT.replace("cluster_zone_ids: [use1-az6, use1-az4]", "cluster_zone_ids: [1, 2]")
    )
    assert [mistake.path for mistake in mistakes] == [
        "network.cluster_zone_ids[0]",
        "network.cluster_zone_ids[1]",
    ]


def test_wrong_tag_key_and_value_are_told_apart(tmp_path: Path) -> None:
    mistakes = _mistakes(tmp_path, _DEFAULT + "\ntags: {team: 7}\n")
    assert [(mistake.path, mistake.says) for mistake in mistakes] == [
        ("tags.team", 'should be text, given the number `7`. help: put it in quotes: `"7"`')
    ]


@pytest.mark.parametrize(
    ("content", "line", "message"),
    [
        (b"", None, "the file is empty. help: start from `deployments/llama-3.3-70b-p5.yaml`"),
        (
            b"# only a comment\n",
            None,
            "the file is empty. help: start from `deployments/llama-3.3-70b-p5.yaml`",
        ),
        (b"- a\n- b\n", 1, "should be a mapping of keys to values"),
        (b"\n\njust text\n", 3, "should be a mapping of keys to values"),
        (b"\x89PNG\r\n\x1a\n\x00\x00", None, "not UTF-8 text: byte 0 is 0x89. help: save it as UTF-8"),
        ("name: \u00e4".encode("utf-16"), None, "not UTF-8 text: byte 0 is 0xff. help: save it as UTF-8"),
        (b"name: a\0b", None, "not text: it holds NUL bytes. help: name a text file that you may read"),
        (b"name: x\nregion: \x07\n", 2, "not text: it holds the control character 0x07"),
        (b"a: [1, 2\nb: 3\n", 2, "not YAML: did not find expected ',' or ']'"),
        (
            b"network:\n\tgpu_zone_id: x\n",
            2,
            "not YAML: found character that cannot start any token. help: indent with spaces, not with tabs",
        ),
        (
            b"name: a\n---\nname: b\n",
            2,
            "holds more than one YAML document. help: one file is one deployment; remove the `---`",
        ),
        (b"[" * 100_000, 1, "not YAML: exceeded maximum nesting depth"),
        (b"a: " * 3 + b"b", 1, "not YAML: mapping values are not allowed in this context"),
        (
            b"x" * (MAX_FILE_BYTES + 1),
            None,
            "larger than 1,000,000 bytes; a deployment file is a page of text. help: name a text file that you may read",
        ),
    ],
)
def test_file_that_is_no_deployment(tmp_path: Path, content: bytes, line: int | None, message: str) -> None:
    mistake = _only(tmp_path, content)
    assert (mistake.path, mistake.line, mistake.says) == ("", line, message)


def test_yaml_bomb_is_refused_by_its_first_alias(tmp_path: Path) -> None:
    bomb = "a: &a [x, x, x, x, x, x, x, x]\n" + "\n".join(
        f"{chr(98 + n)}: &{chr(98 + n)} [{', '.join([f'*{chr(97 + n)}'] * 8)}]" for n in range(12)
    )
    messages = [mistake.says for mistake in _mistakes(tmp_path, bomb)]
    assert "YAML aliases are refused. help: write the value out" in messages


def test_alias_to_itself_is_refused(tmp_path: Path) -> None:
    messages = {mistake.says for mistake in _mistakes(tmp_path, "a: &a [*a]\n")}
    assert "YAML aliases are refused. help: write the value out" in messages


def test_deep_nesting_is_refused(tmp_path: Path) -> None:
    content = _DEFAULT + "\ntags: " + "[" * 500 + "]" * 500 + "\n"
    messages = [mistake.says for mistake in _mistakes(tmp_path, content)]
    assert f"nested deeper than {MAX_DEPTH} levels" in messages


def test_key_that_is_no_word_is_refused(tmp_path: Path) -> None:
    mistake = _only(tmp_path, _DEFAULT + "\n? [a, b]\n: c\n")
    assert mistake.says == "a key should be a word, not a list or a mapping"


@pytest.mark.parametrize(
    "encode",
    [
        lambda text: b"\xef\xbb\xbf" + text.encode(),
        lambda text: text.replace("\n", "\r\n").encode(),
        lambda text: text.replace("region: us-east-1", "region: us-east-1   # comment").encode(),
        lambda text: b"---\n" + text.encode() + b"\n...\n",
    ],
    ids=["byte order mark", "windows line ends", "comments", "document marks"],
)
def test_other_ways_to_write_the_same_file_are_read(tmp_path: Path, encode) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "deployment.yaml"
    path.write_bytes(encode(_DEFAULT))
    assert load(path).deployment.region == "us-east-1"


def test_date_stays_the_text_that_was_written(tmp_path: Path) -> None:
    price = (
        "prices:\n  - {instance_type: ml.p5.48xlarge, usd_per_hour: 63, as_of: 2026-11-30, source: invoice}\n"
    )
    path = tmp_path / "deployment.yaml"
    path.write_text(f"{_DEFAULT}\n{price}", encoding="utf-8")
    assert load(path).deployment.prices[0].as_of == "2026-11-30"


def test_file_that_cannot_be_opened_is_no_traceback(tmp_path: Path) -> None:
    for path, reason in (
        (tmp_path, "is a directory"),
        (tmp_path / "absent.yaml", "no such file or directory"),
        (tmp_path / ("x" * 300), "file name too long"),
        (Path("a\0b"), "embedded null"),
    ):
        with pytest.raises(UnreadableDeploymentError, match=f"cannot be read: {reason}"):
            load(path)


def test_hyphen_is_standard_input_and_files_are_sought_from_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "platform.yaml").write_text("log_retention_days: 30\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    text = f"{_DEFAULT}\nplatform: platform.yaml\n"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    file = load("-")
    assert file.deployment.platform.log_retention_days == 30
    assert file.place("name") == ("-", 1 + text[: text.index("name:")].count("\n"))


def test_shared_platform_is_never_standard_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("deployment.yaml").write_text(f'{_DEFAULT}\nplatform: "-"\n', encoding="utf-8")
    with pytest.raises(UnreadableDeploymentError, match="no such file"):
        load("deployment.yaml")


class TestSharedPlatform:
    """`platform` may name another file."""

    def _load(self, tmp_path: Path, shared: str | None, name: str = "platform.yaml") -> Platform:
        if shared is not None:
            (tmp_path / "platform.yaml").write_text(shared, encoding="utf-8")
        path = tmp_path / "deployment.yaml"
        path.write_text(f"{_DEFAULT}\nplatform: {name}\n", encoding="utf-8")
        return load(path).deployment.platform

    def test_is_read_relative_to_the_deployment(self, tmp_path: Path) -> None:
        assert self._load(tmp_path, "log_retention_days: 30\n").log_retention_days == 30

    def test_mistakes_name_the_shared_file(self, tmp_path: Path) -> None:
        with pytest.raises(UnreadableDeploymentError) as refusal:
            self._load(tmp_path, "\nscraping: colector\nimages: {source: gven}\n")
        assert [(m.file, m.line, m.path) for m in refusal.value.mistakes] == [
            (str(tmp_path / "platform.yaml"), 2, "platform.scraping"),
            (str(tmp_path / "platform.yaml"), 3, "platform.images.source"),
        ]

    @pytest.mark.parametrize(
        ("shared", "name", "reason"),
        [
            (None, "absent.yaml", "no such file"),
            ("", "platform.yaml", "the file is empty. help: write the keys of `platform` into it"),
            ("[1]", "platform.yaml", "should be a mapping"),
            (None, '"a\\0b"', "embedded null"),
            (None, ".", "is a directory"),
        ],
    )
    def test_file_that_cannot_be_read_is_reported_where_it_is_named(
        self, tmp_path: Path, shared: str | None, name: str, reason: str
    ) -> None:
        with pytest.raises(UnreadableDeploymentError) as refusal:
            self._load(tmp_path, shared, name)
        (mistake,) = refusal.value.mistakes
        assert (mistake.file, mistake.path) == (str(tmp_path / "deployment.yaml"), "platform")
        assert reason in mistake.says


def test_place_of_a_value_that_the_file_leaves_out_is_its_nearest_parent(tmp_path: Path) -> None:
    path = tmp_path / "deployment.yaml"
    path.write_text(_DEFAULT, encoding="utf-8")
    file = load(path)
    assert file.place("network.cidr") == (str(path), _line_of(_DEFAULT, "network:"))
    assert file.place("hyperpod.instance_groups[1].minimum") == (
        str(path),
        _line_of(_DEFAULT, "- name: decode"),
    )
    assert file.place("slo.error_ratio") == (str(path), None)
