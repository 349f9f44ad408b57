import pytest

from dpd_router.config import ConfigError, DiscoveryKind, Estimator, Strategy, Transfer, build_parser, load

WORKERS = ("--prefillers", "http://p:8000", "--decoders", "http://d:8000,http://e:8000")
GOOD = (*WORKERS, "--decoder-buffer-chunks", "102")


def problems(*arguments: str, **environment: str) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        load(arguments, environment)
    return caught.value.problems


def test_defaults_are_those_of_the_architecture() -> None:
    settings = load(GOOD, {})
    assert (settings.listen.port, settings.listen.notification_port) == (8081, 7500)
    assert (settings.buffers.init_port_base, settings.buffers.alloc_port_base) == (7300, 7400)
    assert settings.routing.threshold == 4096
    assert settings.routing.strategy is Strategy.CONTINUE
    assert settings.discovery.decoders == ("http://d:8000", "http://e:8000")


def test_flag_wins_over_environment() -> None:
    environment = {"DPD_ROUTER_THRESHOLD": "10", "DPD_ROUTER_ESTIMATOR": "characters"}
    settings = load((*GOOD, "--threshold", "20"), environment)
    assert (settings.routing.threshold, settings.routing.estimator) == (20, Estimator.CHARACTERS)


@pytest.mark.parametrize(("text", "threshold"), [("0", 0), ("never", None), ("4096", 4096)])
def test_threshold(text: str, threshold: int | None) -> None:
    assert load((*GOOD, "--threshold", text), {}).routing.threshold == threshold


def test_every_problem_is_reported_at_once() -> None:
    found = problems(
        "--port", "70000",
        "--threshold", "-1",
        "--strategy", "teleport",
        "--prefill-timeout-seconds", "0",
        "--drain-grace-seconds", "inf",
        "--decoders", "d:8000",
        "--estimator-band", "0.5",
        "--continue-seeded", "perhaps",
        "--passthrough-paths", "v1/x",
        "--tokenizer", "/nowhere",
        "--api-keys-file", "/nowhere",
        "--log-level", "loud",
        "--wrong",
        DPD_ROUTER_UNKNOWN="1",
    )  # fmt: skip
    text = "\n".join(found)
    for name in (
        "port", "threshold", "strategy", "prefill-timeout-seconds", "drain-grace-seconds", "decoders", "estimator-band",
        "continue-seeded", "passthrough-paths", "tokenizer", "api-keys-file", "log-level", "wrong", "prefillers",
        "decoder-buffer-chunks",
    ):  # fmt: skip
        assert f"--{name}`" in text
    assert "`DPD_ROUTER_UNKNOWN`" in text
    assert all("help: " in problem for problem in found)


def test_a_worker_has_one_role() -> None:
    (problem,) = problems(
        "--prefillers", "http://a:1", "--decoders", "http://a:1", "--decoder-buffer-chunks", "1"
    )
    assert "`http://a:1` is both prefiller and decoder" in problem


def test_a_worker_is_named_once() -> None:
    (problem, *_) = problems(*GOOD, "--decoders", "http://a:1,http://a:1/")
    assert "names a worker twice" in problem


@pytest.mark.parametrize(
    "url",
    ["http://a", "http://a:1/v1", "http://a:1?x", "http://a:b", "http://u@a:1", "https://a:1", "http://[a:1"],
)
def test_a_worker_is_a_host_and_a_port(url: str) -> None:
    (problem, *_) = problems(*GOOD, "--decoders", url)
    assert f"`{url}` must look like `http://host:port`" in problem


@pytest.mark.parametrize("flag", ["--otlp-endpoint", "--api-server"])
def test_a_server_has_a_url(flag: str) -> None:
    for url in ("collector:4318", "nonsense://x", "http://", "http://a:b", "http://[a"):
        (problem,) = problems(*GOOD, flag, url)
        assert problem.startswith(f"`{flag}` must look like `http://host:port`; given `{url}`")
    load((*GOOD, flag, "https://collector:4318/some/path"), {})


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (
            ("--tensor-parallel", "8", "--port-epochs", "13"),
            "init ports 7300..7403 and alloc ports 7400..7503 overlap",
        ),
        (
            ("--init-port-base", "9990", "--tensor-parallel", "8"),
            "gives ports 9990..10053, outside of 1000..9999",
        ),
        (("--alloc-port-base", "900"), "gives ports 900..907, outside of 1000..9999"),
    ],
)
def test_port_epochs_keep_four_digits_and_do_not_overlap(flags: tuple[str, ...], message: str) -> None:
    assert any(message in problem for problem in problems(*GOOD, *flags))


def test_twelve_epochs_of_eight_ranks_fit_between_the_bases() -> None:
    settings = load((*GOOD, "--tensor-parallel", "8", "--port-epochs", "12"), {})
    assert settings.port_range(7300) == range(7300, 7396)


def test_never_needs_neither_prefiller_nor_buffer() -> None:
    settings = load(("--decoders", "http://d:8000", "--threshold", "never"), {})
    assert not settings.disaggregates


def test_nixl_needs_no_buffer() -> None:
    assert load((*WORKERS, "--transfer", "nixl"), {}).routing.transfer is Transfer.NIXL


def test_endpoint_slices_need_both_services() -> None:
    found = problems("--discovery", "endpointslices", "--decoder-buffer-chunks", "1")
    assert [problem.split("`")[1] for problem in found] == [
        "--namespace",
        "--decode-service",
        "--prefill-service",
    ]
    settings = load(
        (
            "--discovery",
            "endpointslices",
            "--namespace",
            "n",
            "--decode-service",
            "d",
            "--threshold",
            "never",
        ),
        {},
    )
    assert settings.discovery.discovery is DiscoveryKind.ENDPOINT_SLICES


def test_one_body_must_fit_into_the_queue() -> None:
    (problem,) = problems(*GOOD, "--max-body-bytes", "10", "--max-queued-bytes", "9")
    assert "`--max-body-bytes` 10 is above `--max-queued-bytes` 9" in problem


def test_help_names_every_flag_with_its_default() -> None:
    text = " ".join(build_parser().format_help().split())
    assert "--threshold VALUE" in text
    assert "(default: 4096)" in text
    assert "DPD_ROUTER_<FLAG IN UPPER CASE>" in text


def test_booleans_read_the_usual_words() -> None:
    assert load((*GOOD, "--continue-seeded", "true"), {}).routing.continue_seeded
    assert not load((*GOOD, "--continue-seeded", "off"), {}).routing.continue_seeded


def test_other_routers_are_watched_only_where_services_are_and_own_addresses_are_known() -> None:
    (static,) = problems(*GOOD, "--router-service", "router")
    assert static.startswith("`--router-service` needs `--discovery endpointslices`")
    watching = (
        "--discovery", "endpointslices", "--namespace", "n", "--prefill-service", "p", "--decode-service", "d",
        "--decoder-buffer-chunks", "1", "--router-service", "router",
    )  # fmt: skip
    (unknown,) = problems(*watching)
    assert unknown.startswith("`--own-addresses` is empty")
    (malformed, _) = problems(*watching, "--own-addresses", "router.local")
    assert "`--own-addresses` must be IP addresses; given `router.local`" in malformed
    settings = load((*watching, "--own-addresses", "10.0.0.1,FD00:0::1"), {})
    assert settings.discovery.own_addresses == ("10.0.0.1", "fd00::1")
