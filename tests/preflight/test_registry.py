"""Image references, and registries that want an anonymous token first."""

from collections.abc import Mapping

import pytest

from hyperpod_dpd.preflight.registry import ImageReference, manifest_status, parse_reference
from tests.preflight.aws import TableAccount, WebAnswer

DIGEST = "sha256:" + "ab" * 32


@pytest.mark.parametrize(
    ("text", "registry", "repository", "version"),
    [
        ("busybox", "docker.io", "library/busybox", "latest"),
        ("lmcache/vllm-openai:v0.4.3", "docker.io", "lmcache/vllm-openai", "v0.4.3"),
        ("localhost:5000/a/b:c", "localhost:5000", "a/b", "c"),
        (f"public.ecr.aws/x/y:v1@{DIGEST}", "public.ecr.aws", "x/y", DIGEST),
    ],
)
def test_reference_is_read_as_a_container_runtime_reads_it(
    text: str, registry: str, repository: str, version: str
) -> None:
    image = parse_reference(text)
    assert (image.registry, image.repository, image.version) == (registry, repository, version)


def test_private_registry_says_account_and_region() -> None:
    image = parse_reference(f"123456789012.dkr.ecr.eu-west-1.amazonaws.com/a@{DIGEST}")
    assert image.ecr == ("123456789012", "eu-west-1")
    assert parse_reference("public.ecr.aws/a/b").ecr is None


def test_challenge_is_answered_with_an_anonymous_token() -> None:
    tokens: list[str | None] = []

    def registry(_url: str, headers: Mapping[str, str]) -> WebAnswer:
        tokens.append(headers.get("Authorization"))
        if tokens[-1] is None:
            challenge = 'Bearer realm="https://auth.docker.io/token",service="registry.docker.io"'
            return WebAnswer(status=401, fields=(("WWW-Authenticate", challenge),))
        return WebAnswer(status=200)

    account = TableAccount({}, web=registry)
    assert manifest_status(account, parse_reference("lmcache/vllm-openai:v0.4.3")) == 200
    assert tokens == [None, "Bearer anonymous"]
    assert account.urls == [
        "https://registry-1.docker.io/v2/lmcache/vllm-openai/manifests/v0.4.3",
        "https://auth.docker.io/token?scope=repository%3Almcache%2Fvllm-openai%3Apull&service=registry.docker.io",
        "https://registry-1.docker.io/v2/lmcache/vllm-openai/manifests/v0.4.3",
    ]


def test_refusal_without_a_challenge_is_the_answer() -> None:
    image = ImageReference(registry="example.com", repository="a", tag=None, digest=None)
    account = TableAccount({}, web=lambda _url, _headers: WebAnswer(status=403))
    assert manifest_status(account, image) == 403
