"""`dpd benchmark`: write the manifests of a benchmark job."""

import re
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from pathlib import Path

from hyperpod_dpd.cli.command import Command
from hyperpod_dpd.cli.exits import Exit
from hyperpod_dpd.cli.node import use_bundled_node
from hyperpod_dpd.cli.output import print_finding, print_line, print_mistakes, print_unwritable
from hyperpod_dpd.rules.check import check
from hyperpod_dpd.spec.load import DeploymentFile, UnreadableDeploymentError, load

_PROFILES = ("self-managed", "baseline", "baseline-tuned", "operator", "operator-baseline")


def _add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", type=Path, help="deployment file, or `-` for standard input")
    parser.add_argument(
        "--profile", choices=_PROFILES, required=True, help="which of its profiles is on the cluster"
    )
    parser.add_argument(
        "--to", metavar="DIR", type=Path, required=True, help="folder for the manifests, for `dpd bind`"
    )
    parser.add_argument(
        "--scenario",
        metavar="D(IN,OUT)",
        type=_scenario,
        default=(4096, 256),
        help="tokens of prompts and answers, as genai-bench writes them (default: D(4096,256))",
    )
    parser.add_argument(
        "--concurrency",
        metavar="N",
        type=_positive,
        action="append",
        help="users; may be repeated (default: 8, 16, 32, 64)",
    )
    parser.add_argument(
        "--seed",
        metavar="N",
        type=_positive,
        action="append",
        help="seed; may be repeated (default: 1, 2, 3)",
    )
    parser.add_argument(
        "--requests-per-user", metavar="N", type=_positive, default=10, help="requests per user (default: 10)"
    )
    parser.add_argument(
        "--tokenizer",
        metavar="ADDRESS",
        help="folder of the tokenizer: `s3://bucket/prefix` or `hf://repository@revision` "
        "(default: where the deployment has its model from)",
    )


def _scenario(text: str) -> tuple[int, int]:
    match = re.fullmatch(r"D\(([1-9][0-9]*),([1-9][0-9]*)\)", text.replace(" ", ""))
    if match is None or int(match.group(2)) < 2:
        raise ArgumentTypeError(
            f"`{text}` is no scenario such as D(4096,256), with two tokens or more of an answer"
        )
    return int(match.group(1)), int(match.group(2))


def _positive(text: str) -> int:
    if not re.fullmatch(r"[1-9][0-9]{0,5}", text):
        raise ArgumentTypeError(f"`{text}` is no whole number from 1 to 999999")
    return int(text)


def _run(arguments: Namespace) -> Exit:
    try:
        file = load(arguments.file)
    except UnreadableDeploymentError as error:
        print_mistakes(error)
        return Exit.UNREADABLE
    errors = check(file.deployment).errors
    for finding in errors:
        print_finding(finding.located_in(file))
    return Exit.FINDINGS if errors else _write(arguments, file)


def _write(arguments: Namespace, file: DeploymentFile) -> Exit:
    use_bundled_node()
    from hyperpod_dpd.evidence.benchmark_job import job_name, render_benchmark  # noqa: PLC0415 - starts cdk8s
    from hyperpod_dpd.evidence.benchmark_plan import BenchmarkPlan, NotMeasurableError  # noqa: PLC0415
    from hyperpod_dpd.planner.cost import UndatedPriceError  # noqa: PLC0415
    from hyperpod_dpd.serving.profile import Profile  # noqa: PLC0415

    profile = Profile(arguments.profile)
    input_tokens, output_tokens = arguments.scenario
    default = BenchmarkPlan()
    plan = BenchmarkPlan(
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        concurrencies=_each_once(arguments.concurrency) or default.concurrencies,
        seeds=_each_once(arguments.seed) or default.seeds,
        requests_per_user=arguments.requests_per_user,
        tokenizer=arguments.tokenizer,
    )
    try:
        text = render_benchmark(file.deployment, profile, plan)
        arguments.to.mkdir(parents=True, exist_ok=True)
        path = arguments.to / "benchmark.yaml"
        path.write_text(text, encoding="utf-8")
    except (NotMeasurableError, UndatedPriceError) as error:
        print_line(str(arguments.file), "error", str(error))
        return Exit.FINDINGS
    except OSError as error:
        return print_unwritable(arguments.to, error)
    print(f"{path}: Job `{job_name(profile)}`")
    return Exit.OK


def _each_once(numbers: list[int] | None) -> tuple[int, ...]:
    return tuple(dict.fromkeys(numbers or ()))


COMMAND = Command(
    description="""\
Write the manifests of a benchmark job: the announcement's benchmark with genai-bench, with a record of every request, for the
profile of a deployment that is on the cluster. `dpd bind` puts the account's values in, `kubectl apply` runs it, the result
goes to S3, and `dpd compare` compares two results.

example: dpd benchmark my.yaml --profile self-managed --to build/benchmark
         dpd bind build/benchmark --outputs outputs.json | kubectl apply -f -""",
    add_arguments=_add_arguments,
    run=_run,
)
