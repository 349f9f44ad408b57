"""What only an AWS account knows, as a closed, typed list of placeholders.

Reviewed YAML says `${dpd:NAME}`; a deployment of the stacks and `dpd bind` put the value there.
"""

import re
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any, Final

from hyperpod_dpd.spec import forms
from hyperpod_dpd.spec.arguments import checked

PLACEHOLDER: Final = re.compile(r"\$\{dpd:([^}]*)\}")
"""Anything that looks like a placeholder, known or not."""


class BindingError(ValueError):
    """Placeholders and values do not fit.

    Attributes:
        problems: every reason.
    """

    problems: tuple[str, ...]

    def __init__(self, problems: tuple[str, ...]) -> None:
        self.problems = problems
        super().__init__("\n".join(problems))


class Binding(Enum):
    """A value that is known only after the stacks are deployed.

    Attributes:
        meaning: what it is, in words.
        pattern: what its value looks like.
    """

    meaning: str
    pattern: re.Pattern[str]

    WORKER_IMAGE = ("image of the workers by digest", forms.IMAGE_BY_DIGEST)
    WORKER_IMAGE_ID = ("first 12 digits of the digest of the workers' image", r"[0-9a-f]{12}")
    ROUTER_IMAGE = ("image of the router by digest", forms.IMAGE_BY_DIGEST)
    PROOF_IMAGE = ("image of the proof job by digest", forms.IMAGE_BY_DIGEST)
    BENCHMARK_IMAGE = ("image of the benchmark job by digest", forms.IMAGE_BY_DIGEST)
    MIRROR_REGISTRY = (
        "registry of the account, which has copies of public images",
        r"[0-9]{12}\.dkr\.ecr\.[a-z0-9-]+\.amazonaws\.com(?:\.cn)?",
    )
    MODEL_BUCKET = ("name of the bucket that holds the weights", forms.BUCKET)
    FSX_FILE_SYSTEM_ID = ("id of the FSx for Lustre file system", forms.FILE_SYSTEM)
    FSX_DNS_NAME = ("DNS name of the FSx for Lustre file system", forms.HOST)
    FSX_MOUNT_NAME = ("mount name of the FSx for Lustre file system", forms.MOUNT_NAME)
    AMP_WORKSPACE_URL = (
        "address of the workspace of Amazon Managed Service for Prometheus, without `/api/v1`",
        r"https://aps-workspaces\.[a-z0-9-]+\.amazonaws\.com/workspaces/ws-[a-zA-Z0-9-]+",
    )
    RESULTS_BUCKET = ("name of the bucket that takes the results of benchmarks", forms.BUCKET)
    CERTIFICATE_ARN = (
        "ARN of the ACM certificate of the load balancer",
        forms.CERTIFICATE,
    )

    def __init__(self, meaning: str, pattern: str) -> None:
        self.meaning = meaning
        self.pattern = re.compile(pattern)

    @property
    def placeholder(self) -> str:
        """Text that stands for the value in reviewed YAML."""
        return f"${{dpd:{self.name}}}"

    @property
    def output_key(self) -> str:
        """Key of the CloudFormation output that carries the value, for example `BindWorkerImage`."""
        return "Bind" + "".join(part.capitalize() for part in self.name.split("_"))

    def refuse(self, value: str) -> str | None:
        """Return what is wrong with `value`, or None."""
        if self.pattern.fullmatch(value):
            return None
        return (
            f"`{self.name}` does not fit: given `{value}`, wanted {self.meaning}, "
            f"limit `{self.pattern.pattern}`. help: read it from the stacks' output `{self.output_key}`"
        )


def placeholders(data: Any) -> Iterator[str]:
    """Yield the name in every placeholder below `data`, in order of appearance, repeated ones repeated."""
    match data:
        case str():
            yield from PLACEHOLDER.findall(data)
        case Mapping():
            for key, value in data.items():
                yield from placeholders(key)
                yield from placeholders(value)
        case list() | tuple():
            for item in data:
                yield from placeholders(item)


def read_values(values: Mapping[str, str]) -> dict[Binding, str]:
    """Return `values` by binding; the image id follows from the image where it is not given.

    Raises:
        BindingError: an unknown name or a value that cannot be right; all of them at once.
    """
    problems = [unknown(name) for name in values if name not in Binding.__members__]
    known = {Binding[name]: value for name, value in values.items() if name in Binding.__members__}
    problems += [problem for binding, value in known.items() if (problem := binding.refuse(value))]
    if not problems and Binding.WORKER_IMAGE in known:
        problems += _set_image_id(known)
    if problems:
        raise BindingError(tuple(problems))
    return known


def _set_image_id(known: dict[Binding, str]) -> list[str]:
    computed = known[Binding.WORKER_IMAGE].rpartition(":")[2][:12]
    given = known.setdefault(Binding.WORKER_IMAGE_ID, computed)
    if given == computed:
        return []
    problem = (
        f"`WORKER_IMAGE_ID` does not belong to `WORKER_IMAGE`: given `{given}`, computed `{computed}`. "
        "help: leave `WORKER_IMAGE_ID` out"
    )
    return [problem]


@checked
def bind(text: str, values: Mapping[Binding, str]) -> str:
    """Return `text` with every placeholder replaced.

    Raises:
        BindingError: a placeholder is unknown, or its value is missing or of another form; all of them at once.
    """
    names = dict.fromkeys(PLACEHOLDER.findall(text))
    problems = [unknown(name) for name in names if name not in Binding.__members__]
    problems += [
        f"`{name}` has no value: {Binding[name].meaning}. help: give `--set {name}=VALUE` or `--outputs FILE`"
        for name in names
        if name in Binding.__members__ and values.get(Binding[name]) is None
    ]
    problems += [
        problem
        for name in names
        if name in Binding.__members__
        and (value := values.get(Binding[name])) is not None
        and (problem := Binding[name].refuse(value)) is not None
    ]
    if problems:
        raise BindingError(tuple(problems))
    return PLACEHOLDER.sub(lambda match: values[Binding[match.group(1)]], text)


def unknown(name: str) -> str:
    """Return the message about `name`, which is no binding."""
    listed = ", ".join(f"`{known}`" for known in Binding.__members__)
    return f"unknown binding `{name}`. help: the bindings are {listed}"
