"""How the poller reaches a cluster's API: the cluster's own authority is checked, the identity is a signed question."""

import base64
import datetime as dt
import ipaddress
import ssl
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from hyperpod_dpd.readiness.poller.kubernetes import ApiError, KubernetesApi, connect, token
from tests.support.poller import Aws, Quiet, aws, serving

__all__ = ["aws"]


class _Api(Quiet, BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.answer(200, {"token": self.headers["Authorization"]})


def _certificate(folder: Path) -> tuple[Path, str]:
    """Return a file with key and certificate of 127.0.0.1, and the certificate as EKS describes it."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kubernetes")])
    now = dt.datetime.now(dt.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(hours=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = certificate.public_bytes(serialization.Encoding.PEM)
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    folder.mkdir()
    file = folder / "server.pem"
    file.write_bytes(secret + pem)
    return file, base64.b64encode(pem).decode()


def _describe(aws: Aws, server: Any, authority: str) -> None:
    aws.answers["DescribeCluster"] = {
        "cluster": {
            "endpoint": f"https://127.0.0.1:{server.server_port}",
            "certificateAuthority": {"data": authority},
        }
    }


def test_a_cluster_is_reached_by_what_eks_describes(aws: Aws, tmp_path: Path) -> None:
    file, authority = _certificate(tmp_path / "mine")
    with serving(_Api) as server:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(file)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        _describe(aws, server, authority)
        assert connect("dpd").get("/version")["token"].startswith("Bearer k8s-aws-v1.")


def test_another_authority_is_refused(aws: Aws, tmp_path: Path) -> None:
    file, _ = _certificate(tmp_path / "mine")
    _, other = _certificate(tmp_path / "other")
    with serving(_Api) as server:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(file)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        _describe(aws, server, other)
        with pytest.raises(ApiError, match="certificate verify failed") as refused:
            connect("dpd").get("/version")
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
