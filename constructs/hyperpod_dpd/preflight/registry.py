"""Ask a container registry whether it has an image, as the container runtime does."""

import json
import re
from urllib.parse import quote, urlencode

from hyperpod_dpd.preflight.account import Account
from hyperpod_dpd.spec.value import record

_DOCKER_HUB = "docker.io"
_DOCKER_HUB_API = "registry-1.docker.io"
_MANIFESTS = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
_PRIVATE_ECR = re.compile(r"(\d{12})\.dkr\.ecr\.([a-z0-9-]+)\.amazonaws\.com")
_PARAMETER = re.compile(r'(\w+)="([^"]*)"')


@record
class ImageReference:
    """An image reference, taken apart."""

    registry: str
    repository: str
    tag: str | None
    digest: str | None

    @property
    def ecr(self) -> tuple[str, str] | None:
        """Account and region of a private registry of ECR, otherwise None."""
        match = _PRIVATE_ECR.fullmatch(self.registry)
        return (match[1], match[2]) if match else None

    @property
    def version(self) -> str:
        """Digest, else tag."""
        return self.digest or self.tag or "latest"


def parse_reference(text: str) -> ImageReference:
    """Return `text` taken apart by the rules of container runtimes: no host means Docker Hub, no tag `latest`."""
    name, _, digest = text.partition("@")
    head, slash, rest = name.partition("/")
    if slash and ("." in head or ":" in head or head == "localhost"):
        registry, path = head, rest
    else:
        registry, path = _DOCKER_HUB, name if slash else f"library/{name}"
    repository, _, tag = path.partition(":")
    return ImageReference(registry=registry, repository=repository, tag=tag or None, digest=digest or None)


def manifest_status(account: Account, image: ImageReference) -> int:
    """Return the HTTP status with which the registry answers an anonymous request for the manifest.

    Raises:
        OSError: the registry cannot be reached.
    """
    host = _DOCKER_HUB_API if image.registry == _DOCKER_HUB else image.registry
    scheme = "http" if host.startswith(("127.0.0.1", "localhost")) else "https"
    url = f"{scheme}://{host}/v2/{image.repository}/manifests/{quote(image.version, safe=':')}"
    headers = {"Accept": ", ".join(_MANIFESTS)}
    answer = account.head(url, headers=headers)
    challenge = answer.headers.get("WWW-Authenticate", "")
    if answer.status != 401 or not challenge.startswith("Bearer "):
        return answer.status
    token = _anonymous_token(account, dict(_PARAMETER.findall(challenge)), image)
    return account.head(url, headers={**headers, "Authorization": f"Bearer {token}"}).status


def _anonymous_token(account: Account, challenge: dict[str, str], image: ImageReference) -> str:
    query = {"scope": f"repository:{image.repository}:pull", "service": challenge.get("service", "")}
    answer = json.loads(account.get(f"{challenge['realm']}?{urlencode(query)}"))
    return str(answer.get("token") or answer["access_token"])
