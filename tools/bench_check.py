"""Time of `dpd check` and of importing the library, as multiples of what pydantic and YAML take by themselves.

The floor of `dpd check` imports pydantic and a YAML parser, declares as many models with as many fields as the
specification has, reads the same deployment file, and builds every model once. It runs no rule and has no command
line.
"""

import dataclasses
import sys
import tempfile
from pathlib import Path

import hyperpod_dpd.spec
from tools.measure import ROOT, Comparison, holds

DEPLOYMENT = ROOT / "deployments" / "llama-3.3-70b-p5.yaml"
LIMIT = 1.3

_KINDS = (
    "str = 'x'",
    "Annotated[str, Field(min_length=1)] = 'x'",
    "Annotated[int, Field(ge=1)] = 1",
    "Annotated[float, Field(gt=0)] = 1.0",
    "bool = True",
    "Literal['a', 'b'] = 'a'",
    "str | None = None",
    "tuple[str, ...] = ()",
)
"""Field types as the specification uses them, in turns."""


def floor_module() -> str:
    """Return a module of pydantic models with the same number of classes and fields as the specification."""
    values = [getattr(hyperpod_dpd.spec, name) for name in hyperpod_dpd.spec.__all__]
    sizes = [len(dataclasses.fields(value)) for value in values if dataclasses.is_dataclass(value)]
    lines = [
        "import sys",
        "from pathlib import Path",
        "from typing import Annotated, Literal",
        "import yaml",
        "from pydantic import BaseModel, ConfigDict, Field",
    ]
    for number, size in enumerate(sizes):
        lines += [
            f"class Model{number}(BaseModel):",
            "    model_config = ConfigDict(extra='forbid', frozen=True)",
        ]
        lines += [f"    field{index}: {_KINDS[index % len(_KINDS)]}" for index in range(size)]
    lines += ["class File(BaseModel):", *(f"    part{number}: Model{number}" for number in range(len(sizes)))]
    lines += [
        "def main() -> None:",
        "    yaml.load(Path(sys.argv[1]).read_text(), Loader=yaml.CSafeLoader)",
        f"    File.model_validate({{f'part{{number}}': {{}} for number in range({len(sizes)})}})",
    ]
    return "\n".join(lines) + "\n"


def without_cdk() -> list[str]:
    """Return the public names of the packages that know no CDK."""
    exports: dict[str, str] = vars(hyperpod_dpd)["_EXPORTS"]
    packages = {"_version", "spec", "catalog", "derive", "rules", "lint", "planner"}
    return [name for name, module in exports.items() if module.split(".")[1] in packages]


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        # a module of its own, so that the floor runs from bytecode as the product does
        (Path(folder) / "floor.py").write_text(floor_module(), encoding="utf-8")
        start = f"import sys; sys.path.insert(0, {folder!r}); import floor; floor.main()"
        comparisons = (
            Comparison(
                name="dpd check",
                floor=(sys.executable, "-c", start, str(DEPLOYMENT)),
                product=(str(Path(sys.executable).with_name("dpd")), "check", str(DEPLOYMENT)),
                limit=LIMIT,
            ),
            Comparison(
                name="import hyperpod_dpd",
                floor=(sys.executable, "-c", "import pydantic, yaml"),
                product=(sys.executable, "-c", "import hyperpod_dpd"),
                limit=LIMIT,
            ),
            Comparison(
                name="import hyperpod_dpd, every public name that needs no CDK",
                floor=(sys.executable, "-c", start, str(DEPLOYMENT)),
                product=(sys.executable, "-c", f"from hyperpod_dpd import {', '.join(without_cdk())}"),
                limit=LIMIT,
            ),
        )
        verdicts = [holds(comparison) for comparison in comparisons]
        return 0 if all(verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())
