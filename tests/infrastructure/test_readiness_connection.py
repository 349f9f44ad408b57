"""How the poller reaches a cluster's API: the cluster's own authority is checked, the identity is a signed question."""

import base64
import ssl
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from hyperpod_dpd.readiness.poller.kubernetes import ApiError, KubernetesApi, connect, token
from tests.support.authority import authority_like_eks, be_strict, shake_hands
from tests.support.poller import Aws, Quiet, aws, serving

__all__ = ["aws"]


class _Api(Quiet, BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.answer(200, {"token": self.headers["Authorization"]})


def _describe(aws: Aws, server: Any, authority: Path) -> None:
    aws.answers["DescribeCluster"] = {
        "cluster": {
            "endpoint": f"https://127.0.0.1:{server.server_port}",
            "certificateAuthority": {"data": base64.b64encode(authority.read_bytes()).decode()},
        }
    }


def _connected(aws: Aws, shown: Path, authority: Path) -> Any:
    with serving(_Api) as server:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(shown)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        _describe(aws, server, authority)
        return connect("dpd").get("/version")


def test_a_cluster_is_reached_by_what_eks_describes(
    aws: Aws, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also by the Python of Lambda, which by itself refuses the certificates that EKS makes."""
    mine = authority_like_eks(tmp_path / "mine")
    be_strict(monkeypatch)
    with pytest.raises(ssl.SSLCertVerificationError, match="Authority Key Identifier"):
        shake_hands(ssl.create_default_context(cafile=str(mine.authority)), mine.server)
    assert _connected(aws, mine.server, mine.authority)["token"].startswith("Bearer k8s-aws-v1.")


def test_another_authority_is_refused(aws: Aws, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    be_strict(monkeypatch)
    mine, other = (authority_like_eks(tmp_path / name) for name in ("mine", "other"))
    with pytest.raises(ApiError, match="certificate verify failed") as refused:
        _connected(aws, mine.server, other.authority)
    assert refused.value.status == 0


def test_the_token_is_a_question_to_sts_that_only_this_cluster_can_use(aws: Aws) -> None:
    prefix, _, encoded = token("dpd").partition(".")
    assert prefix == "k8s-aws-v1"
    assert not encoded.endswith("=")
    url = urlsplit(base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)).decode())
    query = {name: values[0] for name, values in parse_qs(url.query).items()}
    assert (url.scheme, url.hostname) == ("https", "sts.us-east-1.amazonaws.com")
    assert query["Action"] == "GetCallerIdentity"
    assert query["X-Amz-Expires"] == "60"
    assert set(query["X-Amz-SignedHeaders"].split(";")) == {"host", "x-k8s-aws-id"}


def test_what_is_no_json_is_told_as_it_is(aws: Aws) -> None:
    class Proxy(Quiet, BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = b"<html>bad gateway</html>"
            self.send_response(502)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    with serving(Proxy) as server:
        api = KubernetesApi(endpoint=f"http://127.0.0.1:{server.server_port}", token="a", context=None)
        with pytest.raises(ApiError, match="bad gateway"):
            api.get("/version")
