"""PRE-IMG-001: the container images can be pulled."""

from collections.abc import Iterator

from botocore.exceptions import ClientError

from hyperpod_dpd.derive.engine import effective_engine
from hyperpod_dpd.preflight.account import Account
from hyperpod_dpd.preflight.call import Call
from hyperpod_dpd.preflight.check import Check, Gap
from hyperpod_dpd.preflight.failure import code_of, explain
from hyperpod_dpd.preflight.registry import ImageReference, manifest_status, parse_reference
from hyperpod_dpd.rules.finding import Problem
from hyperpod_dpd.spec import Deployment

_MISSING = ("ImageNotFoundException", "RepositoryNotFoundException")


def _images(deployment: Deployment) -> Iterator[tuple[str, str]]:
    """Yield path and reference of every image that exists before the deployment; what it builds itself does not."""
    images = deployment.platform.images
    if images.source == "given":
        for key in ("worker", "router", "proof", "benchmark"):
            reference = getattr(images, key)
            if reference is not None:
                yield f"platform.images.{key}", reference
    engine = effective_engine(deployment.serving).image
    if engine is not None:
        yield "serving.engine.image", engine


def _look(deployment: Deployment, account: Account) -> Iterator[Problem | Gap]:
    for path, text in _images(deployment):
        image = parse_reference(text)
        try:
            reason = _ecr(account, image) if image.ecr else _anonymously(account, image)
        except ClientError as error:
            yield explain(error).gap(f"the image `{text}`")
        except (OSError, KeyError, ValueError) as error:
            yield Gap(
                what=f"the image `{text}`",
                why=f"`{image.registry}` cannot be asked from here: {error}",
                fix="run it where the internet is, or copy the image into the account's registry",
            )
        else:
            if reason:
                yield Problem(
                    path=path,
                    says="the image cannot be pulled",
                    given=f"`{text}`",
                    computed=reason,
                    fix="push it, or correct the reference",
                )


def _ecr(account: Account, image: ImageReference) -> str | None:
    assert image.ecr is not None, "asked of private registries of ECR only"
    registry, region = image.ecr
    wanted = {"imageDigest": image.digest} if image.digest else {"imageTag": image.version}
    try:
        account.client("ecr", region=region).describe_images(
            registryId=registry, repositoryName=image.repository, imageIds=[wanted]
        )
    except ClientError as error:
        if code_of(error) not in _MISSING:
            raise
        what = "repository" if code_of(error) == "RepositoryNotFoundException" else "image"
        return f"the registry of {registry} in `{region}` has no such {what}"
    return None


def _anonymously(account: Account, image: ImageReference) -> str | None:
    status = manifest_status(account, image)
    return None if status == 200 else f"`{image.registry}` answers {status}"


def _repositories(deployment: Deployment) -> tuple[str, ...]:
    images = [parse_reference(text) for _, text in _images(deployment)]
    return tuple(
        f"arn:aws:ecr:{image.ecr[1]}:{image.ecr[0]}:repository/{image.repository}"
        for image in images
        if image.ecr
    )


CHECK = Check(
    id="PRE-IMG-001",
    title="the container images can be pulled",
    calls=(Call(service="ecr", operation="DescribeImages", on=_repositories),),
    look=_look,
    applies=lambda deployment: any(_images(deployment)),
)
