"""Run the launcher of a worker the way its container does, without an engine."""

import subprocess
from dataclasses import dataclass
from pathlib import Path

from hyperpod_dpd.serving.engine import EngineConfiguration


@dataclass(frozen=True, slots=True, kw_only=True)
class Launched:
    """What the launcher left behind and would have run."""

    code: int
    arguments: tuple[str, ...]
    """Command line that replaces the launcher."""
    errors: str
    lmcache_yaml: str | None


def launch(
    configuration: EngineConfiguration, directory: Path, command: tuple[str, ...] | None = None
) -> Launched:
    """Start `configuration` in `directory`, which plays the pod: a second call is a restart of its container."""
    config, state, metrics = (directory / name for name in ("config", "state", "metrics"))
    for folder in (config, state):
        folder.mkdir(parents=True, exist_ok=True)
    for file in configuration.files:
        (config / file.name).write_text(file.text, encoding="utf-8")
    places = {"/etc/dpd": str(config), "/var/lib/dpd": str(state), "/tmp/prometheus": str(metrics)}
    environment = {"PATH": "/usr/bin:/bin"}
    for variable in configuration.environment:
        value = variable.value if variable.value is not None else "127.0.0.1"
        for there, here in places.items():
            value = value.replace(there, here)
        environment[variable.name] = value
    shell, script = configuration.command
    assert shell == "/bin/sh"
    arguments = command or ("printf", r"%s\n", *configuration.arguments)
    finished = subprocess.run(
        ["/bin/sh", script.replace("/etc/dpd", str(config)), *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    read = environment.get("LMCACHE_CONFIG_FILE")
    return Launched(
        code=finished.returncode,
        arguments=tuple(finished.stdout.splitlines()),
        errors=finished.stderr,
        lmcache_yaml=Path(read).read_text(encoding="utf-8") if read and Path(read).exists() else None,
    )
