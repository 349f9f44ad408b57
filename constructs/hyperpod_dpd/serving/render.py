"""From a deployment to the YAML that people review and clusters run."""

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import yaml
from cdk8s import App

from hyperpod_dpd.observability.platform import PLATFORM, PlatformCharts
from hyperpod_dpd.rules.check import DeploymentRefusedError
from hyperpod_dpd.serving.bindings import PLACEHOLDER, placeholders
from hyperpod_dpd.serving.profile import Profile, ProfileCharts, expressible, profiles_of
from hyperpod_dpd.spec import Deployment
from hyperpod_dpd.spec.arguments import checked

KUSTOMIZATION: Final = "kustomization.yaml"
_LINE_LENGTH: Final = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class RenderedFile:
    """One YAML file of a profile."""

    name: str
    """File name without its ending."""

    objects: tuple[dict[str, Any], ...]
    """Kubernetes objects in the order of the file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendering:
    """Everything that a profile, or the platform once for all deployments, puts on the cluster."""

    deployment: Deployment
    profile: Profile | Literal["platform", "proof"]
    files: tuple[RenderedFile, ...]

    @property
    def objects(self) -> tuple[dict[str, Any], ...]:
        """Every object of every file."""
        return tuple(entry for file in self.files for entry in file.objects)

    def texts(self) -> dict[str, str]:
        """Return the text of every file by file name, the kustomization included."""
        texts = {
            f"{file.name}.yaml": self._header(file) + "".join(document(entry) for entry in file.objects)
            for file in self.files
        }
        kustomization = {
            "apiVersion": "kustomize.config.k8s.io/v1beta1",
            "kind": "Kustomization",
            "resources": list(texts),
        }
        return {**texts, KUSTOMIZATION: self._header(None) + document(kustomization)}

    def _header(self, file: RenderedFile | None) -> str:
        lines = [
            f"# Rendered from deployment `{self.deployment.name}`, profile `{self.profile}`, by `make render`.",
            "# Do not edit: change the deployment and render again.",
        ]
        bound = sorted(set(placeholders(list(file.objects)))) if file else []
        if bound:
            lines.append(f"# `dpd bind` fills {', '.join(f'${{dpd:{name}}}' for name in bound)}.")
        return "\n".join(lines) + "\n"


@checked
def render(deployment: Deployment, profile: Profile) -> Rendering:
    """Return what `profile` puts on the cluster.

    The rules must have let the deployment through. A profile of the other backend is checked here, because the rules
    have not seen the deployment on it.

    Raises:
        DeploymentRefusedError: the other backend cannot say what the deployment says.
        UnresolvedError: something that the deployment names does not exist or does not go together.
        ValueError: the load balancer cannot wait for the longest answer.
    """
    if profile.backend != deployment.serving.backend:
        report = expressible(deployment, profile)
        if report.errors:
            raise DeploymentRefusedError(report)
    app = App()
    ProfileCharts(app, deployment=deployment, profile=profile)
    return Rendering(deployment=deployment, profile=profile, files=rendered_files(app))


@checked
def render_platform(deployment: Deployment) -> Rendering:
    """Return what the cluster of `deployment` needs once: collector, exporters and dashboards, as far as asked for."""
    app = App()
    PlatformCharts(app, deployment=deployment)
    return Rendering(deployment=deployment, profile=PLATFORM, files=rendered_files(app))


def rendered_files(app: App) -> tuple[RenderedFile, ...]:
    """Return a file per chart of `app`."""
    return tuple(RenderedFile(name=chart.node.id, objects=tuple(chart.to_json())) for chart in app.charts)


def write(rendering: Rendering, directory: Path) -> tuple[Path, ...]:
    """Write `rendering` into `directory`, remove YAML files that it no longer has, and return what changed."""
    directory.mkdir(parents=True, exist_ok=True)
    texts = rendering.texts()
    changed = []
    for path in sorted(directory.glob("*.yaml")):
        if path.name not in texts:
            path.unlink()
            changed.append(path)
    for name, text in texts.items():
        path = directory / name
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            changed.append(path)
    return tuple(changed)


@checked
def write_profiles(deployment: Deployment, directory: Path) -> dict[Profile, tuple[Path, ...]]:
    """Write every profile of `deployment` into its own folder below `directory`, and return what changed.

    Profiles of a backend that cannot say what the deployment says are left out, and their folders removed.

    Raises:
        UnresolvedError: something that the deployment names does not exist or does not go together.
        ValueError: the load balancer cannot wait for the longest answer.
    """
    profiles = profiles_of(deployment)
    for profile in set(Profile) - set(profiles):
        shutil.rmtree(directory / deployment.name / profile.value, ignore_errors=True)
    return {
        profile: write(render(deployment, profile), directory / deployment.name / profile.value)
        for profile in profiles
    }


@checked
def write_platform(deployment: Deployment, directory: Path) -> tuple[Path, ...]:
    """Write the platform of `deployment` beside its profiles, and return what changed.

    A platform section that asks for nothing has no folder.
    """
    rendering, folder = render_platform(deployment), directory / deployment.name / PLATFORM
    if not rendering.files:
        shutil.rmtree(folder, ignore_errors=True)
        return ()
    return write(rendering, folder)


class _Dumper(yaml.SafeDumper):
    """Writes what a reviewer wants to read: lists indented, texts of several lines as blocks."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002, FBT001, FBT002
        super().increase_indent(flow, False)  # noqa: FBT003

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002
        return True


def _represent_text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    style = None
    if "\n" in text:
        style = "|"
    elif PLACEHOLDER.search(text):
        # a bucket or a mount name may consist of digits only and would become a number
        style = '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent_text)


def document(entry: dict[str, Any]) -> str:
    """Return `entry` as one YAML document."""
    return "---\n" + yaml.dump(
        _name_first(entry),
        Dumper=_Dumper,
        sort_keys=False,
        allow_unicode=True,
        width=_LINE_LENGTH,
        default_flow_style=False,
    )


def _name_first(entry: dict[str, Any]) -> dict[str, Any]:
    """Order metadata as people read it; cdk8s sorts it by letter."""
    if "metadata" not in entry:
        return entry
    metadata = entry["metadata"]
    order = ("name", "namespace", "labels", "annotations")
    known = {key: metadata[key] for key in order if key in metadata}
    return {**entry, "metadata": {**known, **metadata}}
