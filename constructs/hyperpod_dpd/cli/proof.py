"""`dpd proof`: does the KV cache move in the running deployment?"""

import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Any

from hyperpod_dpd.cli.command import Command, seconds_between
from hyperpod_dpd.cli.exits import Exit
from hyperpod_dpd.cli.output import Format, add_format, paint, print_json, print_line, print_mistakes
from hyperpod_dpd.spec import Deployment
from hyperpod_dpd.spec.load import UnreadableDeploymentError, load


def _add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", type=Path, help="deployment file, or `-` for standard input")
    add_format(parser)
    parser.add_argument(
        "--context", metavar="NAME", help="context of the kubeconfig (default: the current one)"
    )
    here = parser.add_argument_group("prove from this machine instead of with a Job on the cluster")
    here.add_argument("--url", metavar="URL", help="base URL of the endpoint as this machine reaches it")
    here.add_argument(
        "--prefiller", metavar="URL", action="append", default=[], help="of a prefill worker; repeat it"
    )
    here.add_argument(
        "--decoder", metavar="URL", action="append", default=[], help="of a decode worker; repeat it"
    )
    here.add_argument(
        "--efa-exporter",
        metavar="URL",
        action="append",
        default=[],
        help="that counts EFA traffic; repeat it",
    )
    here.add_argument("--no-efa", action="store_true", help="there is no EFA that the KV cache could cross")
    here.add_argument("--api-key-file", metavar="FILE", type=Path, help="file with the endpoint's keys")
    here.add_argument(
        "--timeout",
        metavar="SECONDS",
        type=seconds_between(0, 3600),
        default=300.0,
        help="the verdict is there by then (default: 300)",
    )


def _run(arguments: Namespace) -> Exit:
    try:
        deployment = load(arguments.file).deployment
    except UnreadableDeploymentError as error:
        print_mistakes(error)
        return Exit.UNREADABLE
    if (arguments.prefiller or arguments.decoder or arguments.efa_exporter) and not arguments.url:
        print_line("dpd", "error", "`--prefiller`, `--decoder` and `--efa-exporter` go with `--url`")
        return Exit.UNREADABLE
    if arguments.url and not (arguments.prefiller and arguments.decoder):
        print_line(
            "dpd", "error", "`--url` needs a `--prefiller` and a `--decoder`, whose counters are the evidence"
        )
        return Exit.UNREADABLE
    result = _from_here(deployment, arguments) if arguments.url else _on_the_cluster(deployment, arguments)
    if result is None:
        return Exit.UNDECIDED
    if arguments.format == Format.JSON:
        print_json({"deployment": deployment.name, **result})
    else:
        _print(deployment, result)
    return Exit.OK if result["verdict"] == "proved" else Exit.FINDINGS


COMMAND = Command(
    description="""\
Send short and long prompts through the running deployment and say whether the KV cache of the long ones really moved,
over the EFA, and was used, and whether the short ones stayed where they belong. If not, say the likely cause and the
rule that prevents it. All metrics may be green meanwhile.

Without --url the Job that the last release has left on the cluster runs once more, through kubectl: nothing but it
may read the workers. With --url the prompts come from this machine, which must reach the workers' metrics.

Exit code 0 means proved, 1 not proved, 3 that there is no verdict.

examples:
  dpd proof deployments/llama-3.3-70b-p5.yaml
  dpd proof deployments/llama-3.3-70b-p5.yaml --url http://127.0.0.1:8081 --no-efa \\
    --prefiller http://127.0.0.2:8000 --decoder http://127.0.0.3:8000""",
    add_arguments=_add_arguments,
    run=_run,
)


def _on_the_cluster(deployment: Deployment, arguments: Namespace) -> dict[str, Any] | None:
    from hyperpod_dpd.evidence.on_demand import CannotProveError, Kubectl, prove_again  # noqa: PLC0415

    try:
        return prove_again(deployment, Kubectl(context=arguments.context), say=_say)
    except CannotProveError as error:
        print_line("dpd", "error", str(error))
        return None


def _from_here(deployment: Deployment, arguments: Namespace) -> dict[str, Any] | None:
    # the program and its parser are for those who prove
    from hyperpod_dpd.derive import UnresolvedError  # noqa: PLC0415
    from hyperpod_dpd.evidence.proof import prove  # noqa: PLC0415
    from hyperpod_dpd.evidence.proof.options import parse, with_key  # noqa: PLC0415
    from hyperpod_dpd.evidence.proof_arguments import switches, target_arguments  # noqa: PLC0415

    try:
        told = [f"--{name}={value}" for name, value in target_arguments(deployment)]
    except UnresolvedError as error:
        print_line(str(arguments.file), "error", str(error))
        return None
    given = [
        *(
            f"--{name}={url}"
            for name in ("prefiller", "decoder", "efa-exporter")
            for url in _urls(arguments, name)
        ),
        *(["--no-efa"] if arguments.no_efa else []),
        *([f"--api-key-file={arguments.api_key_file}"] if arguments.api_key_file else []),
    ]
    options = parse(
        [
            *told,
            *switches(deployment),
            f"--url={arguments.url}",
            f"--timeout-seconds={arguments.timeout}",
            *given,
        ]
    )
    try:
        target = with_key(options)
    except OSError as error:
        print_line("dpd", "error", f"the keys cannot be read: {error}. help: look after `--api-key-file`")
        return None
    return prove(target, say=_say).as_dict()


def _urls(arguments: Namespace, name: str) -> list[str]:
    urls: list[str] = getattr(arguments, name.replace("-", "_"))
    return urls


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _print(deployment: Deployment, result: dict[str, Any]) -> None:
    for finding in result["findings"]:
        named = " ".join((*finding["rules"], finding["id"]))
        page = f" ({finding['runbook']})" if finding["runbook"] else ""
        print_line(
            deployment.name,
            "error",
            f"{named} {finding['says']}. likely cause: {finding['cause']}. help: {finding['fix']}{page}",
        )
    for note in result["notes"]:
        print_line(deployment.name, "note", note)
    for name, number in result["numbers"].items():
        print(f"  {name}: {_shown(number)}")
    verdict = "ok" if result["verdict"] == "proved" else "wrong"
    sources = "; ".join(result["sources"])
    word = paint("proved" if result["verdict"] == "proved" else "not proved", verdict, sys.stdout)
    print(f"{deployment.name}: {word} in {result['seconds']} s by {sources}")


def _shown(number: Any) -> str:
    if isinstance(number, dict):
        return ", ".join(f"{name} {count}" for name, count in number.items()) or "none"
    return ", ".join(map(str, number)) if isinstance(number, list) else str(number)
