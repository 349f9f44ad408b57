"""A cluster's certificates as EKS makes them, and Python's strictness about them from 3.13 on."""

import datetime as dt
import ipaddress
import ssl
from dataclasses import dataclass
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

HOST = "127.0.0.1"


@dataclass(frozen=True)
class Authority:
    """What a client trusts and what a server shows."""

    authority: Path
    """Certificate of the authority, which has no extension but its basic constraints."""
    server: Path
    """Key and certificate of 127.0.0.1."""


def authority_like_eks(folder: Path) -> Authority:
    """Make an authority and a server's certificate in the new folder `folder`; neither has a key identifier."""
    folder.mkdir()
    root_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    root_name = _name("kubernetes")
    root = (
        _builder(root_name, root_name, root_key)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(root_key, hashes.SHA256())
    )
    address = x509.IPAddress(ipaddress.ip_address(HOST))
    leaf = (
        _builder(_name("kube-apiserver"), root_name, key)
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .sign(root_key, hashes.SHA256())
    )
    made = Authority(authority=folder / "ca.crt", server=folder / "server.pem")
    made.authority.write_bytes(root.public_bytes(serialization.Encoding.PEM))
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    made.server.write_bytes(secret + leaf.public_bytes(serialization.Encoding.PEM))
    return made


def be_strict(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `ssl.create_default_context` give what it gives from Python 3.13 on, where functions run."""
    lenient = ssl.create_default_context

    def strict(*arguments: object, **named: object) -> ssl.SSLContext:
        context = lenient(*arguments, **named)  # type: ignore[arg-type]
        context.verify_flags |= ssl.VERIFY_X509_STRICT | ssl.VERIFY_X509_PARTIAL_CHAIN
        return context

    monkeypatch.setattr(ssl, "create_default_context", strict)


def shake_hands(context: ssl.SSLContext, server: Path, host: str = HOST) -> None:
    """Connect a client with `context` to a server that shows `server`, in memory.

    Raises:
        ssl.SSLCertVerificationError: the client does not believe it.
    """
    shown = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    shown.load_cert_chain(server)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context.wrap_bio(to_client, to_server, server_hostname=host)
    answering = shown.wrap_bio(to_server, to_client, server_side=True)
    waiting = [client, answering]
    while waiting:
        for side in list(waiting):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
            waiting.remove(side)


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey
) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(hours=1))
    )
