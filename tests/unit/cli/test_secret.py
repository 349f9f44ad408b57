"""`dpd secret set`: the value arrives in Secrets Manager and nowhere else."""

import io
import os
import subprocess
import sys
from argparse import ArgumentParser
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto import mock_aws
from moto.server import ThreadedMotoServer

from hyperpod_dpd.cli.exits import Exit
from hyperpod_dpd.cli.secret import COMMAND
from tests.support.terminal import on_terminal

DPD = Path(sys.executable).with_name("dpd")
OWN = "hyperpod-dpd/llama/huggingface"
VALUE = "hf_never_shown"
ARN = "arn:aws:secretsmanager:us-east-1:123456789012:secret:keys-AbCdEf"


class _Input(io.StringIO):
    """Standard input that is no terminal."""


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.delenv("AWS_PROFILE", raising=False)
    with mock_aws():
        yield boto3.client("secretsmanager")


def _set(monkeypatch: pytest.MonkeyPatch, *arguments: str, given: str = f"{VALUE}\n") -> Exit:
    monkeypatch.setattr(sys, "stdin", _Input(given))
    parser = ArgumentParser()
    COMMAND.add_arguments(parser)
    return COMMAND.run(parser.parse_args(["set", *arguments]))


def _value(client: Any, name: str) -> str:
    return str(client.get_secret_value(SecretId=name)["SecretString"])


def test_a_secret_that_the_stack_has_made_is_filled(
    client: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    client.create_secret(Name=OWN)
    assert _set(monkeypatch, OWN) is Exit.OK
    assert _value(client, OWN) == VALUE
    shown = capsys.readouterr()
    assert shown.out == f"{OWN}: filled in us-east-1\n"
    assert VALUE not in shown.out + shown.err


def test_a_value_replaces_the_one_before(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    client.create_secret(Name=OWN, SecretString="old")
    assert _set(monkeypatch, OWN) is Exit.OK
    assert _value(client, OWN) == VALUE


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        ("a\nb\n", "a\nb"),
        ("a\r\n", "a"),
        (" a ", " a "),
        ("a\n\n", "a\n"),
        ("ключ", "ключ"),
    ],
)
def test_only_the_newline_at_the_end_is_left_out(
    client: Any, monkeypatch: pytest.MonkeyPatch, given: str, stored: str
) -> None:
    client.create_secret(Name=OWN)
    assert _set(monkeypatch, OWN, given=given) is Exit.OK
    assert _value(client, OWN) == stored


@pytest.mark.parametrize("given", ["", "\n", "  \n"])
def test_an_empty_value_changes_nothing(
    client: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], given: str
) -> None:
    client.create_secret(Name=OWN, SecretString="old")
    assert _set(monkeypatch, OWN, given=given) is Exit.FINDINGS
    assert _value(client, OWN) == "old"
    assert "the value is empty" in capsys.readouterr().err


def test_a_value_that_is_too_long_is_refused_here(
    client: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    client.create_secret(Name=OWN)
    assert _set(monkeypatch, OWN, given="x" * 65_536) is Exit.OK
    assert _set(monkeypatch, OWN, given="x" * 65_537) is Exit.FINDINGS
    assert "more than 65,536 bytes" in capsys.readouterr().err
    # bytes, not characters
    assert _set(monkeypatch, OWN, given="ä" * 40_000) is Exit.FINDINGS


def test_a_secret_of_ones_own_is_made_when_that_is_asked_for(
    client: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _set(monkeypatch, "mine/keys") is Exit.FINDINGS
    assert "there is no secret `mine/keys` in `us-east-1`" in capsys.readouterr().err
    assert client.list_secrets()["SecretList"] == []
    assert _set(monkeypatch, "mine/keys", "--create", "--kms-key", "alias/mine") is Exit.OK
    assert _value(client, "mine/keys") == VALUE
    assert client.describe_secret(SecretId="mine/keys")["KmsKeyId"] == "alias/mine"


def test_a_secret_that_a_stack_makes_is_never_made_by_hand(
    client: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _set(monkeypatch, OWN, "--create") is Exit.FINDINGS
    assert "the stack of deployment `llama` would fail" in capsys.readouterr().err
    assert client.list_secrets()["SecretList"] == []


def test_a_secret_that_is_about_to_be_deleted_says_how_to_keep_it(
    client: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    client.create_secret(Name="mine/keys", SecretString="old")
    client.delete_secret(SecretId="mine/keys")
    assert _set(monkeypatch, "mine/keys") is Exit.FINDINGS
    assert "restore-secret --region us-east-1 --secret-id mine/keys" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("mine/keys", "--kms-key", "alias/mine"), "`--kms-key alias/mine` without `--create`"),
        ((ARN, "--region", "eu-west-1"), "is of `us-east-1`: given `--region eu-west-1`"),
        ((ARN, "--create"), "cannot be made by its ARN"),
    ],
)
def test_what_cannot_be_meant_is_refused(
    client: Any,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    words: str,
) -> None:
    assert _set(monkeypatch, *arguments) is Exit.FINDINGS
    error = capsys.readouterr().err
    assert words in error
    assert "help:" in error


def test_an_arn_says_its_region(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    far = boto3.client("secretsmanager", region_name="eu-west-1")
    arn = far.create_secret(Name="far")["ARN"]
    assert _set(monkeypatch, arn) is Exit.OK
    assert _value(far, "far") == VALUE


def test_there_is_no_way_to_give_the_value_on_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    parser = ArgumentParser()
    COMMAND.add_arguments(parser)
    for more in (["value"], ["--value", "value"], ["--secret-string", "value"]):
        with pytest.raises(SystemExit):
            parser.parse_args(["set", "name", *more])
    capsys.readouterr()


def test_without_credentials_it_says_so_and_not_the_value() -> None:
    ran = subprocess.run(
        [DPD, "secret", "set", "mine/keys", "--region", "us-east-1"],
        input=VALUE,
        capture_output=True,
        text=True,
        check=False,
        env={"AWS_EC2_METADATA_DISABLED": "true", "HOME": "/nonexistent"},
    )
    assert ran.returncode == Exit.FINDINGS
    assert "no AWS credentials were found" in ran.stderr
    assert VALUE not in ran.stdout + ran.stderr


def test_bytes_that_are_no_text_are_refused() -> None:
    ran = subprocess.run(
        [DPD, "secret", "set", "mine/keys", "--region", "us-east-1"],
        input=b"\xff\xfe",
        capture_output=True,
        check=False,
        env={"AWS_EC2_METADATA_DISABLED": "true", "HOME": "/nonexistent"},
    )
    assert ran.returncode == Exit.FINDINGS
    assert b"Traceback" not in ran.stderr


def test_on_a_terminal_the_value_is_asked_for_and_not_echoed() -> None:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        environment = {
            "AWS_ENDPOINT_URL": f"http://{host}:{port}",
            "AWS_ACCESS_KEY_ID": "testing",
            "AWS_SECRET_ACCESS_KEY": "testing",
            "AWS_DEFAULT_REGION": "us-east-1",
        }
        client = boto3.client(
            "secretsmanager",
            endpoint_url=environment["AWS_ENDPOINT_URL"],
            region_name="us-east-1",
            aws_access_key_id="testing",
            aws_secret_access_key="testing",
        )
        client.create_secret(Name=OWN)
        code, shown = _on_a_terminal(environment)
        assert code == Exit.OK
        assert f"value of {OWN} (not shown):" in shown
        assert VALUE not in shown
        assert _value(client, OWN) == VALUE
    finally:
        server.stop()


def _on_a_terminal(environment: dict[str, str]) -> tuple[int, str]:
    """Answer the prompt on a terminal; return exit code and everything that the terminal showed."""
    process, terminal = on_terminal([DPD, "secret", "set", OWN], environment=environment)
    shown = b""
    answered = False
    while True:
        try:
            block = os.read(terminal, 1024)
        except OSError:
            # Linux ends a terminal whose last process is gone with an error
            break
        if not block:
            break
        shown += block
        if b"(not shown):" in shown and not answered:
            os.write(terminal, f"{VALUE}\n".encode())
            answered = True
    os.close(terminal)
    return process.wait(), shown.decode()
