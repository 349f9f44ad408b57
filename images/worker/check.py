"""Check, while the image is built, what can be checked of it without a GPU; run inside the image.

Versions are those of the requirements, and every library that NIXL's LIBFABRIC plugin links is found, except the
driver's own, which the container runtime brings.
"""  # noqa: INP001

import importlib.metadata
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

TRIPLE = ("vllm", "lmcache", "nixl", "nixl-cu13")
FROM_THE_DRIVER = {"libcuda.so.1", "libnvidia-ml.so.1"}
LEAST_LIBFABRIC = (1, 21)


def wrong_versions(requirements: str) -> Iterator[str]:
    """Yield packages of the triple whose installed version is not the required one."""
    for name in TRIPLE:
        required = re.search(rf"^{re.escape(name)}==(\S+)", requirements, re.MULTILINE)
        installed = importlib.metadata.version(name)
        if required is None or required.group(1) != installed:
            yield f"{name} {installed} is installed, required is {required.group(1) if required else 'nothing'}"


def missing_libraries(ldd: str) -> Iterator[str]:
    """Yield libraries that the dynamic linker does not find, by `ldd`'s answer."""
    for line in ldd.splitlines():
        name, _, found = line.strip().partition(" => ")
        if found.startswith("not found") and name not in FROM_THE_DRIVER:
            yield f"NIXL's LIBFABRIC plugin links {name}, which is not there"


def old_libfabric(fi_info: str) -> Iterator[str]:
    """Yield a complaint when libfabric, by `fi_info`'s answer, is older than the plugin needs."""
    version = re.search(r"libfabric: (\d+)\.(\d+)", fi_info)
    if version is None or tuple(map(int, version.groups())) < LEAST_LIBFABRIC:
        yield f"libfabric {'.'.join(map(str, LEAST_LIBFABRIC))} is needed, fi_info says {fi_info.splitlines()[:2]}"


def plugins() -> list[Path]:
    """Return NIXL's LIBFABRIC plugin that agents load; the wheel has a second copy, which only auditwheel put there."""
    files = importlib.metadata.files("nixl-cu13") or []
    loaded = [file for file in files if file.match("plugins/libplugin_LIBFABRIC.so")]
    return [Path(str(file.locate())) for file in loaded]


def _answer(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout  # noqa: S603


def main(requirements: Path) -> int:
    """Check this image; return the exit code."""
    complaints = list(wrong_versions(requirements.read_text(encoding="utf-8")))
    found = plugins()
    if not found:
        complaints.append("nixl-cu13 has no LIBFABRIC plugin")
    for plugin in found:
        complaints += missing_libraries(_answer("ldd", str(plugin)))
    complaints += old_libfabric(_answer("fi_info", "--version"))
    for complaint in complaints:
        print(f"error: {complaint}", file=sys.stderr)
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
