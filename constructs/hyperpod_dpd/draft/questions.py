"""What has to be known before a deployment can be drafted, and what counts as an answer."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from hyperpod_dpd.catalog.instances import instance_types
from hyperpod_dpd.catalog.models import model, models
from hyperpod_dpd.catalog.regions import region, regions
from hyperpod_dpd.spec.value import record
from hyperpod_dpd.spec.violation import close_to

Known = Mapping[str, Any]
"""Answers given so far, by name of the question."""


MOST_IN_FLIGHT = 4096
"""Requests in flight up to which the planner searches for the capacity of a shape."""

_SHIPPED_REVISIONS = {"llama-3.3-70b-instruct": "6f6073b423013f6a7d4d9f39144961bfbfbc386b"}
"""Commits that the shipped deployment files serve; a test compares them."""


class WrongAnswerError(ValueError):
    """An answer that cannot be right; the text says why."""


@record
class Answers:
    """What somebody wants to serve, where, for whom."""

    model: str
    revision: str
    """Commit of the model's repository."""
    instance_type: str
    """Nodes of the prefill workers."""
    decode_instance_type: str
    region: str
    zone_id: str
    input_tokens: int
    """Typical prompt."""
    output_tokens: int
    """Typical answer."""
    concurrency: int
    """Requests in flight."""
    ttft_p95_seconds: float
    tpot_p95_seconds: float


@record
class Question:
    """One question."""

    name: str
    """Name of the answer in `Answers`; the flag is made from it."""

    asks: str
    """The question, lower case, with its unit."""

    read: Callable[[str, Known], Any]
    """Turn text into an answer.

    Raises:
        WrongAnswerError: it is none.
    """

    choices: Callable[[Known], tuple[str, ...]] = lambda _known: ()
    """What can be answered, where that is a list."""

    default: Callable[[Known], str | None] = lambda _known: None
    """Answer that is offered; None: nobody else can know."""

    hint: Callable[[Known], str] = lambda _known: ""
    """How to find out."""

    @property
    def flag(self) -> str:
        """Option of the command line."""
        return f"--{self.name.replace('_', '-')}"


def _choice(kind: str, offered: Callable[[Known], tuple[str, ...]]) -> Callable[[str, Known], str]:
    def read(text: str, known: Known) -> str:
        choices = offered(known)
        if text not in choices:
            hint = close_to(text, choices) or "choose one of " + ", ".join(f"`{each}`" for each in choices)
            raise WrongAnswerError(f"unknown {kind}: given `{text}`. help: {hint}")
        return text

    return read


def _model_names(_known: Known) -> tuple[str, ...]:
    return tuple(row.name for row in models())


def _instance_names(_known: Known) -> tuple[str, ...]:
    return tuple(row.name for row in instance_types())


def _region_names(_known: Known) -> tuple[str, ...]:
    return tuple(row.name for row in regions())


def _zone_ids(known: Known) -> tuple[str, ...]:
    return region(known["region"]).zone_ids


def _ec2_type(known: Known) -> str:
    return str(known["instance_type"]).removeprefix("ml.")


def _commit(text: str, _known: Known) -> str:
    if not re.fullmatch("[0-9a-f]{40}", text):
        raise WrongAnswerError(
            f"not a commit: given `{text}`; limit 40 hexadecimal digits. help: a branch name moves; give the commit"
        )
    return text


def _whole(text: str) -> int:
    try:
        number = int(text.replace(",", "").replace("_", ""))
    except ValueError:
        raise WrongAnswerError(f"not a whole number: given `{text}`. help: write digits only") from None
    if number < 1:
        raise WrongAnswerError(f"should be at least 1: given `{text}`")
    return number


def _seconds(text: str, _known: Known) -> float:
    try:
        number = float(text)
    except ValueError:
        raise WrongAnswerError(
            f"not a number of seconds: given `{text}`. help: write for example `0.05`"
        ) from None
    if not 0 < number < 3600:
        raise WrongAnswerError(f"should be more than 0 and less than 3600 seconds: given `{text}`")
    return number


def _in_flight(text: str) -> int:
    number = _whole(text)
    if number > MOST_IN_FLIGHT:
        raise WrongAnswerError(
            f"more than the planner models: given {number:,}; limit {MOST_IN_FLIGHT:,}. help: plan several deployments "
            "that share the load"
        )
    return number


def _input(text: str, known: Known) -> int:
    return _within_context(_whole(text), 1, known)


def _output(text: str, known: Known) -> int:
    answer = _whole(text)
    _within_context(known["input_tokens"], answer, known)
    return answer


def _within_context(prompt: int, answer: int, known: Known) -> int:
    longest = model(known["model"]).max_position_tokens
    if prompt + answer > longest:
        raise WrongAnswerError(
            f"does not fit: prompt {prompt:,} + answer {answer:,} = {prompt + answer:,} tokens > {longest:,} of "
            f"`{known['model']}`. help: plan for shorter requests, or for another model"
        )
    return prompt


QUESTIONS = (
    Question(
        name="model",
        asks="model",
        read=_choice("model", _model_names),
        choices=_model_names,
        default=lambda _known: "llama-3.3-70b-instruct",
    ),
    Question(
        name="revision",
        asks="commit of the model's repository",
        read=_commit,
        default=lambda known: _SHIPPED_REVISIONS.get(known["model"]),
        hint=lambda known: (
            f"`git ls-remote https://huggingface.co/{model(known['model']).repository} HEAD` prints it"
        ),
    ),
    Question(
        name="instance_type",
        asks="instance type of the prefill nodes",
        read=_choice("instance type", _instance_names),
        choices=_instance_names,
        default=lambda _known: "ml.p5.48xlarge",
    ),
    Question(
        name="decode_instance_type",
        asks="instance type of the decode nodes",
        read=_choice("instance type", _instance_names),
        choices=_instance_names,
        default=lambda known: known["instance_type"],
    ),
    Question(
        name="region",
        asks="region",
        read=_choice("region", _region_names),
        choices=_region_names,
        default=lambda _known: "us-east-1",
    ),
    Question(
        name="zone_id",
        asks="availability-zone id of the GPU nodes",
        read=_choice("zone id of the region", _zone_ids),
        choices=_zone_ids,
        hint=lambda known: (
            "the zone of your training plan, or one that offers the instance type: "
            f"`aws ec2 describe-instance-type-offerings --region {known['region']} "
            f"--location-type availability-zone-id --filters Name=instance-type,Values={_ec2_type(known)}`"
        ),
    ),
    Question(
        name="input_tokens",
        asks="typical prompt, tokens",
        read=_input,
        default=lambda _known: "4096",
    ),
    Question(
        name="output_tokens",
        asks="typical answer, tokens",
        read=_output,
        default=lambda _known: "256",
    ),
    Question(
        name="concurrency",
        asks="requests in flight",
        read=lambda text, _known: _in_flight(text),
        default=lambda _known: "32",
    ),
    Question(
        name="ttft_p95_seconds",
        asks="time to first token, 95th percentile, seconds",
        read=_seconds,
        default=lambda _known: "3.0",
    ),
    Question(
        name="tpot_p95_seconds",
        asks="time per output token, 95th percentile, seconds",
        read=_seconds,
        default=lambda _known: "0.05",
    ),
)
"""In the order in which they are asked: a later one may depend on an earlier answer."""
