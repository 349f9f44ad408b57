"""The build's scripts, with stand-ins for `docker`, `aws`, `curl` and `gpg` that write down what they were asked."""

import hashlib
import os
import re
import subprocess
import textwrap
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from hyperpod_dpd.derive.mirror import in_account
from hyperpod_dpd.spec import Deployment
from tests.support.deployments import ROOT, changed, ready

DIGEST = "sha256:" + "a" * 64
OTHER = "sha256:" + "b" * 64
REPOSITORY = "123456789012.dkr.ecr.us-east-1.amazonaws.com/dpd/router"
REGISTRY = REPOSITORY.partition("/")[0]

DOCKER = 'if [ "$1" = login ]; then cat >/dev/null; fi'
"""A `docker` that reads the password and does nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """What a script did."""

    code: int
    out: str
    errors: str
    calls: list[str]


class Bench:
    """A folder of stand-ins in front of the real tools."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bin = folder / "bin"
        self.bin.mkdir()
        self.log = folder / "calls"
        self.log.touch()

    def stand_in(self, name: str, body: str = "") -> None:
        script = self.bin / name
        script.write_text(
            f'#!/bin/bash\necho "{name} $*" >>"{self.log}"\n{textwrap.dedent(body)}', encoding="utf-8"
        )
        script.chmod(0o755)

    def run(self, *command: str | Path, **variables: str) -> Ran:
        finished = subprocess.run(
            command,
            cwd=ROOT,
            env={"PATH": f"{self.bin}:{os.environ['PATH']}", "TMPDIR": str(self.folder), **variables},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        return Ran(
            code=finished.returncode,
            out=finished.stdout,
            errors=finished.stderr,
            calls=self.log.read_text(encoding="utf-8").splitlines(),
        )


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def registry(bench: Bench, *, holds_image: bool) -> None:
    """A registry that holds the image, or gets it by the build."""
    built = bench.folder / "built"
    made = bench.folder / "made"
    if holds_image:
        built.touch()
    bench.stand_in(
        "aws",
        f"""
        case "$2" in
        get-login-password) echo secret ;;
        describe-images) [ -e "{built}" ] && echo {DIGEST} || {{ echo ImageNotFoundException >&2; exit 254; }} ;;
        describe-repositories) [ -e "{made}" ] || {{ echo RepositoryNotFoundException >&2; exit 254; }} ;;
        create-repository) touch "{made}" ;;
        esac
        """,
    )
    bench.stand_in(
        "docker",
        f"""
        case "$1" in
        login) [ "$(cat)" = secret ] ;;
        buildx) touch "{built}"; echo building ;;
        esac
        """,
    )


def build(bench: Bench, **variables: str) -> Ran:
    given = {"IMAGE": "router", "REPOSITORY": REPOSITORY, "TAG": "0123abcd", **variables}
    return bench.run("images/build.sh", **given)


def test_an_image_is_built_for_the_nodes_platform_and_its_digest_is_the_only_answer(bench: Bench) -> None:
    registry(bench, holds_image=False)
    ran = build(bench)
    assert (ran.code, ran.out) == (0, f"{DIGEST}\n"), ran.errors
    (built,) = [call for call in ran.calls if call.startswith("docker buildx build")]
    assert built == (
        "docker buildx build --platform linux/amd64 --provenance=false --file images/router/Dockerfile "
        f"--tag {REPOSITORY}:0123abcd --push ."
    )
    assert f"docker login --username AWS --password-stdin {REGISTRY}" in ran.calls
    assert "--repository-name dpd/router --image-ids imageTag=0123abcd" in ran.calls[0]


def test_a_repository_is_made_before_the_first_image_of_its_kind_is_built(bench: Bench) -> None:
    registry(bench, holds_image=False)
    ran = build(bench)
    (made,) = [index for index, call in enumerate(ran.calls) if "create-repository" in call]
    assert ran.calls[made] == (
        "aws ecr create-repository --repository-name dpd/router --image-tag-mutability IMMUTABLE "
        "--image-scanning-configuration scanOnPush=true --encryption-configuration encryptionType=KMS"
    )
    assert made < min(index for index, call in enumerate(ran.calls) if "buildx build" in call)


def test_a_repository_that_exists_is_used_as_it_is(bench: Bench) -> None:
    registry(bench, holds_image=False)
    (bench.folder / "made").touch()
    ran = build(bench)
    assert ran.code == 0, ran.errors
    assert not [call for call in ran.calls if "create-repository" in call]


@pytest.mark.parametrize(("holds_image", "script"), [(False, "build"), (True, "mirror")])
def test_a_repository_that_another_build_makes_meanwhile_is_used(
    bench: Bench, holds_image: bool, script: str
) -> None:
    registry(bench, holds_image=holds_image)
    aws = bench.bin / "aws"
    aws.write_text(
        aws.read_text(encoding="utf-8").replace(
            'create-repository) touch "',
            'create-repository) echo RepositoryAlreadyExistsException >&2; touch "',
        ),
        encoding="utf-8",
    )
    with aws.open("a", encoding="utf-8") as opened:
        opened.write('[ "$2" != create-repository ]\n')
    ran = build(bench) if script == "build" else mirror(bench, MIRROR_IMAGES=BY_TAG)
    assert ran.code == 0, ran.errors
    assert "dpd-error" not in ran.errors


@pytest.mark.parametrize("script", ["build", "mirror"])
def test_a_repository_that_may_not_be_made_is_said_with_its_reason(bench: Bench, script: str) -> None:
    refusal = "An error occurred (AccessDeniedException): not authorized to perform ecr:CreateRepository"
    bench.stand_in(
        "aws", f'[ "$2" = get-login-password ] || {{ printf "\\n{refusal}\\n" >&2; exit 254; }}; echo secret'
    )
    bench.stand_in("docker", DOCKER)
    ran = build(bench) if script == "build" else mirror(bench, MIRROR_IMAGES=BY_TAG)
    assert ran.code == 1
    name = "dpd/router" if script == "build" else f"mirror/{BY_TAG.partition(':')[0]}"
    assert ran.errors.strip().splitlines()[-1] == (
        f"dpd-error: making the repository {name} failed: {refusal}. help: make it beforehand, with immutable tags"
    )


def test_an_image_that_another_deployment_pushed_first_is_used(bench: Bench) -> None:
    registry(bench, holds_image=False)
    bench.stand_in(
        "docker",
        f"""
        case "$1" in
        login) cat >/dev/null ;;
        buildx) touch "{bench.folder / "built"}"; echo "tag invalid: the image tag already exists"; exit 1 ;;
        esac
        """,
    )
    ran = build(bench)
    assert (ran.code, ran.out) == (0, f"{DIGEST}\n"), ran.errors


def test_an_image_that_exists_is_not_built_again(bench: Bench) -> None:
    registry(bench, holds_image=True)
    ran = build(bench)
    assert (ran.code, ran.out) == (0, f"{DIGEST}\n")
    assert not [call for call in ran.calls if call.startswith("docker")]


@pytest.mark.parametrize(("image", "argument"), [("router", "PYTHON_IMAGE"), ("worker", "CUDA_IMAGE")])
def test_a_mirrored_base_replaces_the_dockerfiles_own(bench: Bench, image: str, argument: str) -> None:
    registry(bench, holds_image=False)
    ran = build(bench, IMAGE=image, BASE_IMAGE=f"{REGISTRY}/mirror/base@{OTHER}")
    assert ran.code == 0
    assert f"--build-arg {argument}={REGISTRY}/mirror/base@{OTHER}" in " ".join(ran.calls)


def test_a_base_without_a_digest_is_refused(bench: Bench) -> None:
    registry(bench, holds_image=False)
    ran = build(bench, BASE_IMAGE="python:3.12")
    assert ran.code == 1
    assert "dpd-error: BASE_IMAGE is `python:3.12`, not an image by digest" in ran.errors
    assert not [call for call in ran.calls if "build" in call]


def test_an_unknown_image_is_refused(bench: Bench) -> None:
    registry(bench, holds_image=False)
    ran = build(bench, IMAGE="rooter")
    assert ran.code == 1
    assert "set IMAGE to worker, router, proof or benchmark" in ran.errors


def test_a_failed_build_gives_no_digest_but_its_last_words(bench: Bench) -> None:
    registry(bench, holds_image=False)
    bench.stand_in(
        "docker", f'{DOCKER}; [ "$1" = login ] || {{ echo "ERROR: no space left on device"; exit 1; }}'
    )
    ran = build(bench)
    assert ran.code != 0
    assert ran.out == ""
    assert (
        ran.errors.strip().splitlines()[-1]
        == ("dpd-error: building images/router/Dockerfile failed: ERROR: no space left on device ").strip()
    )


def test_a_login_that_is_refused_is_said(bench: Bench) -> None:
    registry(bench, holds_image=False)
    bench.stand_in("docker", "cat >/dev/null; exit 1")
    ran = build(bench)
    assert ran.code != 0
    assert f"dpd-error: logging in to {REGISTRY} failed" in ran.errors


EMPTY_REGISTRY = 'case "$2" in get-login-password) echo secret ;; create-repository) ;; *) exit 254 ;; esac'
FULL_REGISTRY = 'case "$2" in get-login-password) echo secret ;; esac'
BY_DIGEST = f"public.ecr.aws/docker/library/python:3.12-slim-bookworm@{OTHER}"
BY_TAG = "nvcr.io/nvidia/k8s/dcgm-exporter:4.6.1-4.8.4-distroless"


def mirror(bench: Bench, **variables: str) -> Ran:
    return bench.run("images/mirror.sh", MIRROR_REGISTRY=REGISTRY, **variables)


def deployment_with_mirror() -> Deployment:
    return changed(ready(), platform__images__mirror_public_images=True)


@pytest.mark.parametrize(
    ("image", "copied_to"),
    [
        (BY_DIGEST, f"mirror/public.ecr.aws/docker/library/python:{OTHER.removeprefix('sha256:')}"),
        (BY_TAG, f"mirror/{BY_TAG}"),
    ],
)
def test_a_public_image_is_copied_to_where_the_manifests_look_for_it(
    bench: Bench, image: str, copied_to: str
) -> None:
    bench.stand_in("aws", EMPTY_REGISTRY)
    bench.stand_in("docker", DOCKER)
    ran = mirror(bench, MIRROR_IMAGES=image)
    assert ran.out == f"{image} {in_account(image, deployment_with_mirror(), registry=REGISTRY)}\n", (
        ran.errors
    )
    assert f"docker buildx imagetools create --tag {REGISTRY}/{copied_to} {image}" in ran.calls
    (created,) = [call for call in ran.calls if "create-repository" in call]
    assert f"--repository-name {copied_to.rpartition(':')[0]} " in created
    assert "--image-tag-mutability IMMUTABLE" in created
    assert "scanOnPush=true" in created
    assert "encryptionType=KMS" in created


@pytest.mark.parametrize("image", [BY_DIGEST, BY_TAG])
def test_a_copy_that_exists_is_not_made_again(bench: Bench, image: str) -> None:
    bench.stand_in("aws", FULL_REGISTRY)
    bench.stand_in("docker", DOCKER)
    ran = mirror(bench, MIRROR_IMAGES=image)
    assert ran.code == 0
    assert not [call for call in ran.calls if "imagetools" in call or "create-repository" in call]


@pytest.mark.parametrize("image", ["nvcr.io/nvidia/cuda", f"python@{OTHER}", "python:3.12"])
def test_an_image_without_registry_or_version_is_not_mirrored(bench: Bench, image: str) -> None:
    bench.stand_in("aws", "echo secret")
    bench.stand_in("docker", DOCKER)
    ran = mirror(bench, MIRROR_IMAGES=image)
    assert ran.code == 1
    assert f"dpd-error: `{image}` is not an image" in ran.errors


def test_an_image_that_cannot_be_copied_is_named(bench: Bench) -> None:
    bench.stand_in("aws", EMPTY_REGISTRY)
    bench.stand_in("docker", f'{DOCKER}; [ "$1" = login ]')
    ran = mirror(bench, MIRROR_IMAGES=f"{BY_TAG} {BY_DIGEST}")
    assert ran.code != 0
    assert f"copying {BY_TAG} failed" in ran.errors
    # what comes after it is not copied either
    assert BY_DIGEST not in ran.out


def _charts(bench: Bench, *, sha256: str = "") -> Ran:
    """Mirror one chart from a stand-in of the internet; its digest is right unless another is given."""
    chart = bench.folder / "chart"
    chart.write_bytes(b"a chart")
    tool = bench.folder / "linux-amd64/helm"
    tool.parent.mkdir()
    tool.write_text(
        f'#!/bin/bash\n[ "$1" = push ] || cat >/dev/null; echo "helm $*" >>"{bench.log}"\n', encoding="utf-8"
    )
    tool.chmod(0o755)
    helm = bench.folder / "helm.tar.gz"
    subprocess.run(["tar", "-czf", helm, "-C", bench.folder, "linux-amd64"], check=True)
    bench.stand_in("aws", EMPTY_REGISTRY)
    bench.stand_in("docker", DOCKER)
    bench.stand_in(
        "curl",
        f"""
        for last; do :; done
        case "$last" in *helm*) from="{helm}" ;; *) from="{chart}" ;; esac
        while [ "$1" != --output ]; do shift; done
        cp "$from" "$2"
        """,
    )
    return mirror(
        bench,
        MIRROR_CHARTS=f"https://charts.example/external-secrets-2.9.0.tgz={sha256 or _sha256(chart)}",
        HELM_URL="https://get.example/helm.tar.gz",
        HELM_SHA256=_sha256(helm),
    )


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_chart_is_copied_below_its_name_and_version(bench: Bench) -> None:
    ran = _charts(bench)
    assert ran.code == 0, ran.errors
    assert ran.out == (
        "https://charts.example/external-secrets-2.9.0.tgz "
        f"oci://{REGISTRY}/mirror/charts/external-secrets:2.9.0\n"
    )
    (pushed,) = [call for call in ran.calls if call.startswith("helm push")]
    assert pushed.endswith(f"external-secrets-2.9.0.tgz oci://{REGISTRY}/mirror/charts")


def test_a_chart_with_another_digest_is_refused(bench: Bench) -> None:
    ran = _charts(bench, sha256="0" * 64)
    assert ran.code == 1
    assert f"dpd-error: external-secrets-2.9.0.tgz has sha256 {_sha256(bench.folder / 'chart')}" in ran.errors
    assert not [call for call in ran.calls if call.startswith("helm push")]


def test_the_build_specification_hands_the_digest_out(bench: Bench) -> None:
    registry(bench, holds_image=False)
    specification = yaml.safe_load((ROOT / "images/buildspec.yml").read_text(encoding="utf-8"))
    assert str(specification["version"]) == "0.2"
    assert specification["env"]["exported-variables"] == ["IMAGE_URI"]
    script = bench.folder / "commands.sh"
    script.write_text("\n".join(["set -e", *specification["phases"]["build"]["commands"]]), encoding="utf-8")
    ran = bench.run(
        specification["env"]["shell"],
        script,
        IMAGE="router",
        REPOSITORY=REPOSITORY,
        TAG="1",
    )
    assert ran.code == 0, ran.errors
    assert ran.out.splitlines()[-1] == f"{REPOSITORY}@{DIGEST}"


@pytest.mark.parametrize("text", ["images/buildspec.yml", "images/mirror.yml", "images/worker/Dockerfile"])
def test_scripts_run_whatever_an_archive_made_of_their_mode(text: str) -> None:
    called = [
        line
        for line in (ROOT / text).read_text(encoding="utf-8").splitlines()
        if re.search(r"\S+\.sh\b", line) and not line.startswith(("#", "COPY"))
    ]
    assert called
    assert all(re.search(r"\bbash \S+\.sh\b", line) for line in called)


def efa(bench: Bench, *, signed_by: str) -> Ran:
    """Run the installer's script with an archive that says when its installer was run."""
    archive = bench.folder / "archive"
    (archive / "aws-efa-installer").mkdir(parents=True)
    installer = archive / "aws-efa-installer/efa_installer.sh"
    installer.write_text(f'#!/bin/bash\necho "efa_installer.sh $*" >>"{bench.log}"\n', encoding="utf-8")
    installer.chmod(0o755)
    tarball = bench.folder / "tarball"
    subprocess.run(["tar", "-czf", tarball, "-C", archive, "aws-efa-installer"], check=True)
    bench.stand_in("curl", f'for last; do :; done; cp "{tarball}" "${{last##*/}}"')
    bench.stand_in(
        "gpg",
        f"""
        case "$*" in
        *--verify*) [ -z "{signed_by}" ] && exit 1; echo "[GNUPG:] VALIDSIG FFFF 2026 0 4 0 1 10 00 {signed_by}" ;;
        esac
        """,
    )
    bench.stand_in("apt-get")
    bench.stand_in("ldconfig")
    bench.stand_in("rm")
    return bench.run(
        ROOT / "images/worker/install-efa.sh",
        EFA_INSTALLER_VERSION="1.47.0",
        EFA_INSTALLER_BASE="https://efa.example",
    )


def test_the_efa_installer_runs_when_awss_key_has_signed_it(bench: Bench) -> None:
    ran = efa(bench, signed_by="4E9091BCBB97A96B26B15E59A05480B1DD2D3CCC")
    assert ran.code == 0, ran.errors
    assert "efa_installer.sh --yes --skip-kmod --skip-limit-conf --no-verify" in ran.calls
    fetched = [call.split("/")[-1] for call in ran.calls if call.startswith("curl")]
    assert fetched == [
        "aws-efa-installer-1.47.0.tar.gz",
        "aws-efa-installer-1.47.0.tar.gz.sig",
        "aws-efa-installer.key",
    ]


@pytest.mark.parametrize("signed_by", ["", "0" * 40])
def test_the_efa_installer_of_anybody_else_never_runs(bench: Bench, signed_by: str) -> None:
    ran = efa(bench, signed_by=signed_by)
    assert ran.code == 1
    assert not [call for call in ran.calls if call.startswith("efa_installer")]
