"""The import program as its build runs it: a process, a hub and an S3 on loopback."""

import base64
import hashlib
import json
import os
import shutil
import subprocess
import sys
import threading
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import boto3
import pytest
from botocore.config import Config
from moto.server import ThreadedMotoServer

from hyperpod_dpd.storage.model_import.package import stage
from hyperpod_dpd.storage.model_import.program import (
    __main__ as main_module,
)
from hyperpod_dpd.storage.model_import.program import (
    checksums,
    hub_token,
    model_files,
    transfer,
)
from hyperpod_dpd.storage.model_import.program import (
    folder as folder_origin,
)
from hyperpod_dpd.storage.model_import.program import (
    hub as hub_origin,
)
from hyperpod_dpd.storage.model_import.program import (
    store as model_store,
)
from tests.support import hub as hub_module
from tests.support.hub import COMMIT, REPOSITORY, Hub, serving

PREFIX = "models/tiny/1"
MANIFEST = f"{PREFIX}.manifest.json"


def _content(seed: int, size: int) -> bytes:
    return hashlib.shake_128(str(seed).encode()).digest(size)


FILES = {
    "config.json": b'{"architectures": ["Tiny"]}',
    "tokenizer/tokenizer.json": _content(1, 5_000),
    "model-00001-of-00003.safetensors": _content(2, 900_000),
    "model-00002-of-00003.safetensors": _content(3, 700_000),
    "model-00003-of-00003.safetensors": _content(4, 100),
    "README.md": b"# Tiny\n",
}
BESIDE = {"original/consolidated.00.pth": _content(5, 1_000), "pytorch_model.bin": _content(6, 1_000)}
"""The same weights in other formats."""


@pytest.fixture(scope="module")
def aws() -> Iterator[str]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    _, port = server.get_host_and_port()
    yield f"http://127.0.0.1:{port}"
    server.stop()


@dataclass
class Bench:
    """Buckets of one test, and the program on them."""

    bucket: str
    url: str
    work: Path
    program: Path
    s3: Any

    def environment(self, hub_url: str = "http://127.0.0.1:9") -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(self.program),
            "HOME": str(self.work.parent),
            "HF_HOME": str(self.work.parent / "hub"),
            "HF_ENDPOINT": hub_url,
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ACCESS_KEY_ID": "a",
            "AWS_SECRET_ACCESS_KEY": "b",
            "AWS_DEFAULT_REGION": "us-east-1",
            "no_proxy": "127.0.0.1",
        }

    def command(self, origin: str, *more: str) -> list[str]:
        return [
            sys.executable,
            "-m",
            "hyperpod_dpd.storage.model_import.program",
            *("--origin", origin, "--bucket", self.bucket, "--prefix", PREFIX, "--manifest-key", MANIFEST),
            *("--work", str(self.work), *more),
        ]

    def stored(self) -> dict[str, bytes]:
        found = self.s3.list_objects_v2(Bucket=self.bucket).get("Contents", ())
        return {
            row["Key"]: self.s3.get_object(Bucket=self.bucket, Key=row["Key"])["Body"].read() for row in found
        }

    def manifest(self) -> Any:
        return json.loads(self.stored()[MANIFEST])

    def store(self) -> model_store.Store:
        return model_store.Store(self.bucket, PREFIX, MANIFEST, self.s3)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that is uploaded for the build."""
    folder = tmp_path_factory.mktemp("program")
    stage(folder)
    return folder


@pytest.fixture
def bench(aws: str, program: Path, tmp_path: Path, request: pytest.FixtureRequest) -> Bench:
    bucket = "b" + hashlib.sha256(request.node.nodeid.encode()).hexdigest()[:20]
    s3 = boto3.client(
        "s3",
        endpoint_url=aws,
        region_name="us-east-1",
        aws_access_key_id="a",
        aws_secret_access_key="b",
        config=Config(retries={"max_attempts": 1}),
    )
    s3.create_bucket(Bucket=bucket)
    work = tmp_path / "work"
    work.mkdir()
    return Bench(bucket=bucket, url=aws, work=work, program=program, s3=s3)


@pytest.fixture
def hub() -> Iterator[Hub]:
    with serving(Hub(files={**FILES, **BESIDE})) as running:
        yield running


@pytest.fixture
def in_process(hub: Hub, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Hub:
    """The hub, found by the library in this process."""
    import huggingface_hub.constants  # noqa: PLC0415

    monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", hub.url)
    monkeypatch.setattr("huggingface_hub.hf_api.ENDPOINT", hub.url, raising=False)
    monkeypatch.setattr(
        "huggingface_hub.constants.HUGGINGFACE_CO_URL_TEMPLATE",
        hub.url + "/{repo_id}/resolve/{revision}/{filename}",
    )
    return hub


def _run(bench: Bench, origin: str, *more: str, hub_url: str = "http://127.0.0.1:9") -> Any:
    return subprocess.run(
        bench.command(origin, *more),
        env=bench.environment(hub_url),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


ORIGIN = f"hf://{REPOSITORY}@{COMMIT}"
REPOSITORY_ON_HUB = hub_origin.Hub(REPOSITORY, COMMIT, None)


def test_a_repository_arrives_whole_with_its_marker_and_nothing_is_left_on_disk(
    bench: Bench, hub: Hub
) -> None:
    ran = _run(bench, ORIGIN, hub_url=hub.url)
    assert ran.returncode == 0, ran.stderr
    stored = bench.stored()
    manifest = json.loads(stored.pop(MANIFEST))
    assert stored == {f"{PREFIX}/{path}": content for path, content in FILES.items()}
    assert manifest == {
        "version": 1,
        "origin": ORIGIN,
        "bytes": sum(map(len, FILES.values())),
        "files": [
            {"path": path, "size_bytes": len(FILES[path]), "sha256": hashlib.sha256(FILES[path]).hexdigest()}
            for path in sorted(FILES)
        ],
    }
    assert list(bench.work.iterdir()) == []
    assert f"6 of 6 files copied, {manifest['bytes']:,} bytes" in ran.stdout


def test_s3_is_given_the_checksum_of_every_part(bench: Bench) -> None:
    _import(bench, Given(FILES))
    for path, content in FILES.items():
        head = bench.s3.head_object(Bucket=bench.bucket, Key=f"{PREFIX}/{path}", ChecksumMode="ENABLED")
        assert head["Metadata"]["sha256"] == hashlib.sha256(content).hexdigest()
        assert base64.b64decode(head["ChecksumSHA256"]) == hashlib.sha256(content).digest()


def test_a_file_in_several_parts_is_known_again(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_store, "PART_BYTES", 5 << 20)
    files = {**FILES, "model-00001-of-00003.safetensors": bytes(11 << 20)}
    _import(bench, Given(files))
    key = f"{PREFIX}/model-00001-of-00003.safetensors"
    assert bench.s3.head_object(Bucket=bench.bucket, Key=key)["ETag"].strip('"').endswith("-3")
    assert _import(bench, Given(files)).copied == 0
    assert bench.stored()[key] == files["model-00001-of-00003.safetensors"]


def test_killed_in_the_middle_it_completes_when_run_again(bench: Bench, hub: Hub) -> None:
    last = "model-00002-of-00003.safetensors"
    hub.hold[last] = threading.Event()
    with subprocess.Popen(
        bench.command(ORIGIN, "--parallel", "1"),
        env=bench.environment(hub.url),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        assert hub.halfway.wait(timeout=120)
        process.kill()
    before = bench.stored()
    # the larger file went first and is complete, nothing says that the model is
    assert set(before) == {f"{PREFIX}/model-00001-of-00003.safetensors"}
    hub.hold.pop(last).set()
    hub.fetched.clear()
    ran = _run(bench, ORIGIN, hub_url=hub.url)
    assert ran.returncode == 0, ran.stderr
    assert "model-00001-of-00003.safetensors" not in {path for path, _ in hub.fetched}
    assert "5 of 6 files" in ran.stdout
    assert len(bench.manifest()["files"]) == 6
    # what the first run left on disk does not reach the bucket
    assert len(bench.stored()) == 7


def test_a_connection_that_breaks_is_resumed_where_it_broke(bench: Bench, in_process: Hub) -> None:
    broken = "model-00001-of-00003.safetensors"
    # the library writes ten megabytes at a time
    in_process.files[broken] = bytes(24_000_000)
    in_process.breaks[broken] = 1
    assert _import(bench, REPOSITORY_ON_HUB).copied == 6
    ranges = [given for path, given in in_process.fetched if path == broken]
    assert len(ranges) == 2
    assert ranges[0] is None
    assert int(str(ranges[1]).removeprefix("bytes=").partition("-")[0]) > 0
    assert bench.stored()[f"{PREFIX}/{broken}"] == in_process.files[broken]


@pytest.mark.parametrize("spoilt", ["model-00001-of-00003.safetensors", "config.json"])
def test_content_that_is_not_what_its_digest_says_never_reaches_the_bucket(
    bench: Bench, in_process: Hub, spoilt: str
) -> None:
    in_process.spoilt.add(spoilt)
    with pytest.raises(
        model_files.ImportFailedError, match=rf"`{spoilt}` has .* the origin says .*: refused"
    ):
        _import(bench, REPOSITORY_ON_HUB)
    stored = bench.stored()
    assert f"{PREFIX}/{spoilt}" not in stored
    assert MANIFEST not in stored


def test_a_second_run_copies_nothing(bench: Bench, in_process: Hub) -> None:
    assert _import(bench, REPOSITORY_ON_HUB).copied == 6
    in_process.fetched.clear()
    again = _import(bench, REPOSITORY_ON_HUB)
    assert str(again) == "0 of 6 files copied, 0 bytes"
    assert in_process.fetched == []


def test_a_commit_that_is_there_needs_neither_hub_nor_token(bench: Bench, in_process: Hub) -> None:
    _import(bench, REPOSITORY_ON_HUB)
    _secrets(bench).create_secret(Name=f"{bench.bucket}/empty")
    # nobody listens at the hub's address, and the secret of another attempt is empty
    ran = _run(bench, ORIGIN, "--token-secret", f"{bench.bucket}/empty", "--token-wait-seconds", "60")
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == f"s3://{bench.bucket}/{PREFIX} holds {ORIGIN}: 0 of 6 files copied, 0 bytes\n"


def _taken_away(bench: Bench) -> None:
    bench.s3.delete_object(Bucket=bench.bucket, Key=f"{PREFIX}/config.json")


def _written_by_hand(bench: Bench) -> None:
    same_size = bytes(len(FILES["config.json"]))
    bench.s3.put_object(Bucket=bench.bucket, Key=f"{PREFIX}/config.json", Body=same_size)


def _of_another_size(bench: Bench) -> None:
    kept = bench.s3.head_object(Bucket=bench.bucket, Key=f"{PREFIX}/config.json")["Metadata"]
    bench.s3.put_object(Bucket=bench.bucket, Key=f"{PREFIX}/config.json", Body=b"{}", Metadata=kept)


def _with_a_stranger(bench: Bench) -> None:
    bench.s3.put_object(Bucket=bench.bucket, Key=f"{PREFIX}/other.safetensors", Body=b"x")


def _unmarked(bench: Bench) -> None:
    bench.s3.delete_object(Bucket=bench.bucket, Key=MANIFEST)


def _marked_as(text: str) -> Callable[[Bench], None]:
    def write(bench: Bench) -> None:
        bench.s3.put_object(Bucket=bench.bucket, Key=MANIFEST, Body=text.encode())

    return write


@pytest.mark.parametrize(
    "spoil",
    [
        _taken_away,
        _written_by_hand,
        _of_another_size,
        _with_a_stranger,
        _unmarked,
        *map(
            _marked_as,
            ("{", "[]", "{}", f'{{"origin": "{ORIGIN}"}}', f'{{"origin": "{ORIGIN}", "files": []}}'),
        ),
        _marked_as(f'{{"origin": "{ORIGIN}", "files": [{{"path": "config.json"}}]}}'),
        _marked_as(f'{{"origin": "{ORIGIN}", "files": 1}}'),
    ],
)
def test_whatever_is_not_as_the_marker_says_is_looked_at_again(
    bench: Bench, spoil: Callable[[Bench], None]
) -> None:
    store = bench.store()
    _import(bench, Given(FILES, name=ORIGIN))
    assert transfer.arrived(ORIGIN, store) == transfer.Report(files=6, copied=0, copied_bytes=0)
    spoil(bench)
    assert transfer.arrived(ORIGIN, store) is None


@pytest.mark.parametrize(
    "origin", [f"hf://{REPOSITORY}@{'0' * 40}", f"hf://{REPOSITORY}@main", "s3://theirs/models/tiny"]
)
def test_only_the_same_commit_is_known_without_asking(bench: Bench, origin: str) -> None:
    """A folder of a bucket, or a branch, may have other content by now."""
    _import(bench, Given(FILES, name=origin if "0000" not in origin else ORIGIN))
    store = bench.store()
    assert transfer.arrived(origin, store) is None


def test_a_gated_repository_is_opened_by_the_token_in_the_secret(bench: Bench, hub: Hub) -> None:
    hub.token = "hf_secret"
    secrets = _secrets(bench)
    secrets.create_secret(Name=f"{bench.bucket}/token", SecretString="hf_secret\n")
    ran = _run(bench, ORIGIN, "--token-secret", f"{bench.bucket}/token", hub_url=hub.url)
    assert ran.returncode == 0, ran.stderr
    assert "hf_secret" not in ran.stdout + ran.stderr


def test_a_gated_repository_without_a_token_says_what_to_do(bench: Bench, hub: Hub) -> None:
    hub.token = "hf_secret"
    ran = _run(bench, ORIGIN, hub_url=hub.url)
    assert ran.returncode == 1
    assert f"dpd-error: `{REPOSITORY}` is gated" in ran.stderr
    assert "dpd secret set" in ran.stderr


@pytest.mark.parametrize(
    ("repository", "commit", "words"),
    [
        (REPOSITORY, "0" * 40, f"has no commit `{'0' * 40}`"),
        ("acme/unknown", COMMIT, "the Hub gives out no `acme/unknown`"),
    ],
)
def test_what_the_hub_does_not_have_is_said(
    bench: Bench, in_process: Hub, repository: str, commit: str, words: str
) -> None:
    with pytest.raises(model_files.ImportFailedError, match=words):
        _import(bench, hub_origin.Hub(repository, commit, None))
    assert bench.stored() == {}


def _secrets(bench: Bench) -> Any:
    return boto3.client(
        "secretsmanager",
        endpoint_url=bench.url,
        region_name="us-east-1",
        aws_access_key_id="a",
        aws_secret_access_key="b",
    )


def _import(bench: Bench, origin: Any, **changes: Any) -> transfer.Report:
    said: list[str] = []
    return transfer.import_model(
        origin,
        bench.store(),
        bench.work,
        **{"parallel": 2, "say": said.append, "sleep": lambda _seconds: None, **changes},
    )


@dataclass
class Given:
    """An origin in memory that fails as it is told."""

    contents: dict[str, bytes]
    name: str = "memory"
    fail: Callable[[str], None] = lambda _path: None

    def files(self) -> list[model_files.File]:
        return [
            model_files.File(
                path=path,
                size_bytes=len(content),
                identity=hashlib.sha256(content).hexdigest(),
                sha256=hashlib.sha256(content).hexdigest(),
            )
            for path, content in self.contents.items()
        ]

    def fetch(self, file: model_files.File, folder: Path) -> Path:
        self.fail(file.path)
        path = folder / "content"
        path.write_bytes(self.contents[file.path])
        return path


def test_a_commit_that_the_hub_has_moved_is_refused(bench: Bench, in_process: Hub) -> None:
    in_process.moved_to = "f" * 40
    with pytest.raises(model_files.ImportFailedError, match="is commit `ffff"):
        _import(bench, REPOSITORY_ON_HUB)


def test_a_disk_that_is_too_small_is_refused_before_anything_is_downloaded(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = 1_600_000 - 1
    usage = SimpleNamespace(total=0, used=0, free=transfer.SPARE_BYTES + room)
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: usage)

    def never(path: str) -> None:
        raise AssertionError(path)

    with pytest.raises(model_files.ImportFailedError) as refused:
        _import(bench, Given(FILES, fail=never))
    assert "1,599,999 bytes free, the 2 largest files take 1,600,000" in str(refused.value)
    assert bench.stored() == {}
    # one file at a time has room
    assert _import(bench, Given(FILES), parallel=1).copied == 6


def test_no_more_files_than_allowed_are_on_their_way(bench: Bench) -> None:
    lock, now, most = threading.Lock(), 0, 0
    together = threading.Barrier(2, timeout=60)

    def enter(path: str) -> None:
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)
        # two of them meet, or the barrier breaks: the files really travel side by side
        together.wait()
        with lock:
            now -= 1

    _import(bench, Given(FILES, fail=enter), parallel=2)
    assert most == 2


def test_a_network_that_fails_is_tried_again_and_what_stays_is_shown(bench: Bench) -> None:
    attempts: dict[str, int] = {}

    def fail(path: str) -> None:
        attempts[path] = attempts.get(path, 0) + 1
        if path == "config.json" and attempts[path] < transfer.ATTEMPTS:
            raise OSError("reset")

    assert _import(bench, Given(FILES, fail=fail)).copied == 6
    assert attempts["config.json"] == transfer.ATTEMPTS

    def always(path: str) -> None:
        raise OSError("reset by peer")

    changed = {**FILES, "config.json": b"{}"}
    with pytest.raises(model_files.ImportFailedError, match=r"failed 8 times, last: OSError: reset by peer"):
        _import(bench, Given(changed, fail=always))


def test_pauses_between_attempts_grow_and_end(bench: Bench) -> None:
    pauses: list[float] = []

    def always(path: str) -> None:
        raise OSError("reset")

    with pytest.raises(model_files.ImportFailedError):
        _import(bench, Given(FILES, fail=always), parallel=1, sleep=pauses.append)
    assert pauses == [5, 10, 20, 40, 80, 160, 300]


def test_a_listing_that_fails_is_asked_for_again(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    origin = Given(FILES)
    listed = origin.files()
    asked: list[int] = []

    def files() -> list[model_files.File]:
        asked.append(1)
        if len(asked) < 3:
            raise OSError("503")
        return listed

    monkeypatch.setattr(origin, "files", files)
    assert _import(bench, origin).copied == 6
    assert len(asked) == 3


def test_the_last_line_is_the_reason_whatever_happens(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def explode(*_arguments: Any, **_named: Any) -> None:
        raise RuntimeError("nobody thought of this")

    monkeypatch.setattr(main_module, "import_model", explode)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    assert main_module.main(bench.command("s3://a/b")[3:]) == 1
    assert capsys.readouterr().err.strip().splitlines()[-1] == (
        "dpd-error: RuntimeError: nobody thought of this"
    )


def test_the_marker_is_the_last_object_and_goes_first(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    for name in ("put", "mark", "unmark"):
        original = getattr(model_store.Store, name)

        def noted(self: Any, *arguments: Any, name: str = name, original: Any = original) -> Any:
            calls.append(name)
            return original(self, *arguments)

        monkeypatch.setattr(model_store.Store, name, noted)
    _import(bench, Given(FILES))
    assert calls == ["put"] * 6 + ["mark"]
    calls.clear()
    _import(bench, Given({**FILES, "config.json": b"{}"}))
    assert calls == ["unmark", "put", "mark"]
    calls.clear()
    _import(bench, Given({**FILES, "config.json": b"{}"}))
    assert calls == []


def test_an_object_that_was_taken_away_is_brought_back(bench: Bench) -> None:
    _import(bench, Given(FILES))
    key = f"{PREFIX}/model-00003-of-00003.safetensors"
    bench.s3.delete_object(Bucket=bench.bucket, Key=key)
    assert _import(bench, Given(FILES)).copied == 1
    assert key in bench.stored()


def test_an_object_with_the_right_size_and_other_content_is_replaced(bench: Bench) -> None:
    bench.s3.put_object(
        Bucket=bench.bucket, Key=f"{PREFIX}/config.json", Body=bytes(len(FILES["config.json"]))
    )
    _import(bench, Given(FILES))
    assert bench.stored()[f"{PREFIX}/config.json"] == FILES["config.json"]


def test_a_marker_that_cannot_be_read_is_written_anew(bench: Bench) -> None:
    _import(bench, Given(FILES))
    right = bench.manifest()
    bench.s3.put_object(Bucket=bench.bucket, Key=MANIFEST, Body=b"{")
    assert _import(bench, Given(FILES)).copied == 0
    assert bench.manifest() == right


def test_weights_of_another_model_in_the_folder_are_refused(bench: Bench) -> None:
    bench.s3.put_object(Bucket=bench.bucket, Key=f"{PREFIX}/other.safetensors", Body=b"x")
    with pytest.raises(
        model_files.ImportFailedError, match=r"holds weights of another model: .*other\.safetensors"
    ):
        _import(bench, Given(FILES))


@pytest.mark.parametrize(
    ("gone", "words"), [("config.json", "has no `config.json`"), ("model", "has no weights in safetensors")]
)
def test_what_is_no_model_is_refused(bench: Bench, gone: str, words: str) -> None:
    rest = {path: content for path, content in FILES.items() if not path.startswith(gone)}
    with pytest.raises(model_files.ImportFailedError, match=words):
        _import(bench, Given(rest))


def _folder(bench: Bench, files: dict[str, bytes], **more: Any) -> str:
    for path, content in files.items():
        bench.s3.put_object(Bucket=bench.bucket, Key=f"from/{path}", Body=content, **more)
    return f"s3://{bench.bucket}/from"


def test_a_folder_of_another_bucket_arrives_whole(bench: Bench) -> None:
    uri = _folder(bench, {**FILES, **BESIDE})
    ran = _run(bench, uri)
    assert ran.returncode == 0, ran.stderr
    arrived = {key: content for key, content in bench.stored().items() if key.startswith(f"{PREFIX}/")}
    assert arrived == {f"{PREFIX}/{path}": content for path, content in FILES.items()}
    assert bench.manifest()["origin"] == uri


def test_a_folder_that_is_written_while_it_is_copied_is_refused(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = folder_origin.Folder(_folder(bench, FILES), bench.s3)
    listed = folder.files()
    _folder(bench, {"config.json": b'{"architectures": ["Tony"]}'})
    monkeypatch.setattr(folder, "files", lambda: listed)
    with pytest.raises(model_files.ImportFailedError, match="was replaced while it was copied"):
        _import(bench, folder)


@pytest.mark.parametrize("key", ["from/../secret.json", "from//etc/passwd"])
def test_a_key_that_points_out_of_its_folder_is_refused(key: str) -> None:
    pages = [{"Contents": [{"Key": key, "Size": 1, "ETag": '"a"'}]}]
    paginator = SimpleNamespace(paginate=lambda **_given: pages)
    client = SimpleNamespace(get_paginator=lambda _name: paginator)
    with pytest.raises(model_files.ImportFailedError, match="points out of its folder"):
        folder_origin.Folder("s3://b/from", client).files()


CHECKED = b"123456789"
CHECKS = {
    # check values of the CRC catalogue for the input 123456789, and RFC 3174's and NIST's of the same bytes
    "CRC32": (0xCBF43926).to_bytes(4, "big"),
    "CRC32C": (0xE3069283).to_bytes(4, "big"),
    "CRC64NVME": (0xAE8B14860A799888).to_bytes(8, "big"),
    "SHA1": bytes.fromhex("f7c3bc1d808e04732adf679965ccc34ca7ae3441"),
    "SHA256": bytes.fromhex("15e2b0d3c33891ebb0f1ef609ec419420c20e320ce94c65fbc8c3312448eb225"),
}


@pytest.mark.parametrize("algorithm", CHECKS)
def test_every_checksum_of_s3_is_compared(algorithm: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(CHECKED)
    head = {
        "ChecksumType": "FULL_OBJECT",
        f"Checksum{algorithm}": base64.b64encode(CHECKS[algorithm]).decode(),
    }
    checksums.refuse_unless_same(path, "it", head)
    path.write_bytes(CHECKED[:-1] + b"8")
    with pytest.raises(model_files.ImportFailedError, match=f"has {algorithm} .* refused"):
        checksums.refuse_unless_same(path, "it", head)


def test_a_checksum_of_parts_is_left_to_s3(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(CHECKED)
    value = base64.b64encode(zlib.crc32(b"other").to_bytes(4, "big")).decode()
    checksums.refuse_unless_same(path, "it", {"ChecksumType": "COMPOSITE", "ChecksumCRC32": value})
    checksums.refuse_unless_same(path, "it", {"ChecksumCRC32": f"{value}-2"})


def test_an_empty_secret_is_waited_for(bench: Bench) -> None:
    client = _secrets(bench)
    name = f"{bench.bucket}/late"
    client.create_secret(Name=name)
    said: list[str] = []

    def fill(_seconds: float) -> None:
        client.put_secret_value(SecretId=name, SecretString="hf_late")

    token = hub_token.wait_for_token(name, client, seconds=60, say=said.append, sleep=fill, clock=lambda: 0.0)
    assert token == "hf_late"
    assert said == [f"the secret `{name}` is empty: waiting 1 minutes for `dpd secret set {name}`"]


def test_a_secret_that_stays_empty_ends_the_import_with_the_way_to_fill_it(bench: Bench) -> None:
    client = _secrets(bench)
    name = f"{bench.bucket}/never"
    client.create_secret(Name=name)
    times = iter([0.0, 30.0, 60.0])
    with pytest.raises(model_files.ImportFailedError, match=f"still empty .* `dpd secret set {name}`"):
        hub_token.wait_for_token(
            name, client, seconds=60, say=lambda _text: None, sleep=lambda _s: None, clock=lambda: next(times)
        )


@pytest.mark.parametrize(
    ("path", "kept"),
    [
        ("config.json", True),
        ("model.safetensors", True),
        ("tokenizer.model", True),
        ("1/model.safetensors", True),
        ("original/params.json", False),
        ("model.gguf", False),
        ("onnx/config.json", False),
        ("pytorch_model-00001.BIN", False),
    ],
)
def test_only_what_an_engine_reads_is_copied(path: str, kept: bool) -> None:
    assert model_files.belongs(path) is kept


def test_the_hub_of_these_tests_names_content_as_git_does() -> None:
    # `git hash-object` of an empty file
    assert hub_module.git_sha1(b"") == "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"


def test_the_program_needs_nothing_but_its_requirements(program: Path) -> None:
    look = (
        "import sys, hyperpod_dpd.storage.model_import.program.__main__ as m; "
        "print(m.__file__, 'aws_cdk' in sys.modules, 'pydantic' in sys.modules)"
    )
    shown = subprocess.run(
        [
            sys.executable,
            "-c",
            look,
        ],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(program)},
        capture_output=True,
        text=True,
        check=True,
    )
    file, *imported = shown.stdout.split()
    assert Path(file).is_relative_to(program)
    assert imported == ["False", "False"]
