"""Reading: lines, lists, aliases, and files that are no manifests."""

from pathlib import Path

import pytest

from hyperpod_dpd.lint.node import plain
from hyperpod_dpd.lint.read import MAX_FILE_BYTES, MAX_VALUES, UnreadableManifestError, parse, read


def _refused(path: Path) -> str:
    with pytest.raises(UnreadableManifestError) as caught:
        read([path])
    return str(caught.value)


def _file(folder: Path, content: str | bytes, name: str = "a.yaml") -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_every_document_and_every_value_knows_its_line() -> None:
    first, second = parse("a: 1\n---\nb:\n  - c: |\n      x\n      y\n", "f.yaml")
    assert (first.file, first.line, plain(first)) == ("f.yaml", 1, {"a": 1})
    text = second.get("b", 0, "c")
    assert text is not None
    assert (text.line, text.text_line, text.text, text.path) == (4, 5, "x\ny\n", "b[0].c")


@pytest.mark.parametrize("text", ["", "---\n", "# only a comment\n"])
def test_files_without_any_document_are_refused_because_a_check_of_nothing_finds_nothing(
    tmp_path: Path, text: str
) -> None:
    path = tmp_path / "nothing.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UnreadableManifestError, match=r"nothing\.yaml: error: holds no document"):
        read([path])


def test_empty_documents_are_no_documents() -> None:
    assert parse("---\n---\n# nothing\n---\na: 1\n", "f")[0].line == 5
    assert parse("", "f") == ()


def test_json_is_yaml() -> None:
    (document,) = parse('{"kind": "Pod", "spec": {"replicas": 2}}', "f.json")
    assert plain(document) == {"kind": "Pod", "spec": {"replicas": 2}}


def test_aliases_and_merge_keys_are_written_out() -> None:
    (document,) = parse("a: &a {x: 1, y: 2}\nb:\n  <<: *a\n  y: 3\nc: *a\n", "f")
    assert plain(document) == {"a": {"x": 1, "y": 2}, "b": {"x": 1, "y": 3}, "c": {"x": 1, "y": 2}}


def test_a_number_keeps_its_spelling() -> None:
    (document,) = parse("a: 1.30\nb: 0o17\nc: true\nd: 2026-11-30\n", "f")
    assert [document.text_at(key) for key in "abcd"] == ["1.30", "0o17", "true", "2026-11-30"]


def test_a_bomb_of_aliases_is_refused(tmp_path: Path) -> None:
    lines = ["a: &a [x, x, x, x, x, x, x, x, x, x]"]
    for before, name in zip("abcdefgh", "bcdefghi", strict=True):
        lines.append(f"{name}: &{name} [{', '.join([f'*{before}'] * 10)}]")
    says = _refused(_file(tmp_path, "\n".join(lines)))
    assert f"more than {MAX_VALUES:,} values" in says


def test_an_alias_of_itself_is_refused(tmp_path: Path) -> None:
    assert "nested deeper" in _refused(_file(tmp_path, "a: &a [*a]\n"))


def test_deep_nesting_is_refused(tmp_path: Path) -> None:
    assert "maximum nesting depth" in _refused(_file(tmp_path, "[" * 5000))


@pytest.mark.parametrize(
    ("content", "line", "says"),
    [
        (b"a: 1\n\xff\xfe\n", 2, "not UTF-8 text: byte 5 is 0xff"),
        (b"a: 1\nb: \0\n", 2, "NUL"),
        (b"a: 1\nb: [1\n", 3, "not YAML"),
        (b"a: 1\n\tb: 2\n", 2, "not YAML"),
        (b"a: 1\na: 2\n", 2, "the key `a` is given twice"),
        (b"? [a]\n: 1\n", 1, "a key is a list or a mapping"),
        (b"a: 1\nb: {{ .Values.b }}\n", 2, "helm template"),
        (b"a: 1\nb: \x07\n", 2, "not text"),
    ],
    ids=["bytes", "nul", "open", "tab", "twice", "key", "chart", "control"],
)
def test_what_is_no_yaml_is_refused_with_file_and_line(
    tmp_path: Path, content: bytes, line: int, says: str
) -> None:
    path = _file(tmp_path, content)
    refused = _refused(path)
    assert refused.startswith(f"{path}:{line}: error: ")
    assert says in refused


def test_a_binary_file_and_a_huge_one_are_refused(tmp_path: Path) -> None:
    assert "not UTF-8" in _refused(_file(tmp_path, bytes(range(256)), "image.yaml"))
    assert "larger than" in _refused(_file(tmp_path, b"#" * (MAX_FILE_BYTES + 1)))


def test_every_unreadable_file_is_named_at_once(tmp_path: Path) -> None:
    _file(tmp_path, "a: [", "a.yaml")
    _file(tmp_path, "b: [", "b.yaml")
    _file(tmp_path, "c: 1", "c.yaml")
    with pytest.raises(UnreadableManifestError) as caught:
        read([tmp_path, tmp_path / "missing.yaml"])
    assert [Path(reason.file).name for reason in caught.value.reasons] == ["a.yaml", "b.yaml", "missing.yaml"]


def test_folders_are_read_below_except_for_what_is_hidden(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    (tmp_path / ".git").mkdir()
    _file(tmp_path, "a: 1", "a.yaml")
    _file(tmp_path / "below", "b: 1", "b.yml")
    _file(tmp_path / "below", "{}", "c.json")
    _file(tmp_path / ".git", "d: [", "d.yaml")
    _file(tmp_path, "not: [yaml", "README.md")
    assert [Path(document.file).name for document in read([tmp_path])] == ["a.yaml", "b.yml", "c.json"]


def test_a_folder_without_manifests_is_refused(tmp_path: Path) -> None:
    assert "no file below it ends in `.yaml`" in _refused(tmp_path)
