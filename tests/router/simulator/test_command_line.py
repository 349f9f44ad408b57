"""`python -m dpd_simulator` takes what a rendered worker has, and refuses what the engines refuse."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
import yaml
import zmq
import zmq.asyncio

from dpd_simulator import Role, SimulatedCluster
from dpd_simulator.arguments import StartupError, parse
from tests.router.support import LIMIT_SECONDS

SIMULATOR = Path(__file__).parents[3] / "router" / "simulator"
TRANSFER = {
    "kv_connector": "LMCacheConnectorV1",
    "kv_role": "kv_consumer",
    "kv_connector_extra_config": {"discard_partial_chunks": False, "skip_last_n_tokens": 1},
}
RECEIVER = {
    "enable_pd": True,
    "pd_role": "receiver",
    "pd_peer_host": "0.0.0.0",
    "pd_peer_init_port": [7300],
    "pd_peer_alloc_port": [7400],
    "pd_buffer_size": 1024**3,
    "pd_buffer_device": "cuda",
    "transfer_channel": "nixl",
    "nixl_backends": ["LIBFABRIC"],
}
SENDER = {
    "enable_pd": True,
    "pd_role": "sender",
    "pd_proxy_host": "router.system.svc",
    "pd_proxy_port": 7500,
    "pd_buffer_size": 1024**3,
    "pd_buffer_device": "cuda",
    "transfer_channel": "nixl",
}


def environment(tmp_path: Path, settings: dict[str, Any], **more: str) -> dict[str, str]:
    path = tmp_path / f"{settings.get('pd_role', 'lmcache')}.yaml"
    path.write_text(yaml.safe_dump(settings))
    return {"LMCACHE_CONFIG_FILE": str(path), "PYTHONHASHSEED": "0", **more}


def arguments(*more: str, transfer: dict[str, Any] | None = None) -> list[str]:
    return ["--model", "/models/x", "--kv-transfer-config", json.dumps(transfer or TRANSFER), *more]


def test_a_rendered_decoder_is_understood(tmp_path: Path) -> None:
    startup = parse(
        arguments(
            "--served-model-name",
            "llama",
            "dpd-port-epoch-0",
            "--max-num-batched-tokens",
            "16K",
            "--no-enable-prefix-caching",
            "--enable-prompt-tokens-details",
            "--gpu-memory-utilization",
            "0.75",
        ),
        environment(tmp_path, RECEIVER, LMCACHE_PD_ALLOCATION_TIMEOUT_SEC="10"),
    )
    config = startup.config
    assert config.role is Role.DECODE
    assert config.served_model_names == ("llama", "dpd-port-epoch-0")
    assert config.max_num_batched_tokens == 16_384
    assert not config.prefix_caching
    assert config.lmcache is not None
    assert config.lmcache.total_chunks == 102
    assert config.lmcache.allocation_timeout_seconds == 10
    assert config.lmcache.skip_last_n_tokens == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"pd_peer_init_port": None}, "pd_peer_init_port"),
        ({"pd_buffer_size": "4Gi"}, "must be an integer"),
        ({"pd_buffer_size": 1024}, "smaller than a single chunk"),
        ({"pd_role": "sender"}, "pd_role"),
        ({"transfer_channel": "tcp"}, "transfer_channel"),
        ({"pd_max_prefill_len": 131_072}, "pd_max_prefill_len"),
        ({"pd_backend_mode": "sync"}, "not simulated"),
    ],
)
def test_lmcache_settings_that_lmcache_refuses(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    with pytest.raises(StartupError, match=message):
        parse(arguments(), environment(tmp_path, RECEIVER | change))


def test_too_few_ports_for_the_ranks(tmp_path: Path) -> None:
    with pytest.raises(StartupError, match="1 entries for 8 ranks"):
        parse(arguments("--tensor-parallel-size", "8"), environment(tmp_path, RECEIVER))


@pytest.mark.parametrize(
    ("more", "transfer", "message"),
    [
        (["--disable-log-requests"], TRANSFER, "unrecognized arguments"),
        ([], TRANSFER | {"kv_rank": 0}, "kv_rank"),
        ([], TRANSFER | {"kv_role": "decoder"}, "kv_role"),
    ],
)
def test_arguments_that_vllm_refuses(
    tmp_path: Path, more: list[str], transfer: dict[str, Any], message: str
) -> None:
    with pytest.raises(StartupError, match=message):
        parse(arguments(*more, transfer=transfer), environment(tmp_path, RECEIVER))


RENDERED = sorted(SIMULATOR.parents[1].glob("manifests/rendered/*/*/*.yaml"))


def _engine_commands() -> list[Any]:
    """Arguments of every rendered container that runs an engine."""
    commands = []
    for path in RENDERED:
        for document in yaml.safe_load_all(path.read_text()):
            pod = ((document or {}).get("spec") or {}).get("template", {}).get("spec", {})
            for container in pod.get("containers", []):
                if container.get("args", [])[:2] == ["vllm", "serve"]:
                    name = "-".join([*path.parts[-3:-1], path.stem])
                    commands.append(pytest.param(container["args"], id=name))
    return commands


@pytest.mark.parametrize("command", _engine_commands())
def test_every_rendered_engine_is_understood(command: list[str]) -> None:
    config = parse(command, {}).config
    assert config.http_port == 8000
    assert config.tensor_parallel_size == 8
    assert config.max_model_len == 16_384


def test_underscores_stand_for_dashes() -> None:
    assert parse(["--model", "x", "--max_model_len=4096"], {}).config.max_model_len == 4096


def test_legacy_keys_switch_the_handoff_off_without_an_error(tmp_path: Path) -> None:
    settings = {"enable_nixl": True, "nixl_role": "receiver"}
    assert parse(arguments(), environment(tmp_path, settings)).config.lmcache is None


def test_the_size_of_a_token_comes_from_the_model(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(
        json.dumps(
            {
                "num_hidden_layers": 80,
                "num_attention_heads": 64,
                "num_key_value_heads": 8,
                "hidden_size": 8192,
            }
        )
    )
    ports = {"pd_peer_init_port": list(range(7300, 7308)), "pd_peer_alloc_port": list(range(7400, 7408))}
    startup = parse(
        ["serve", str(tmp_path), "-tp", "8", "--kv-transfer-config", json.dumps(TRANSFER)],
        environment(tmp_path, RECEIVER | ports),
    )
    assert startup.config.lmcache is not None
    assert startup.config.lmcache.kv_bytes_per_token_per_rank == 40_960


@asynccontextmanager
async def process(*args: str, env: dict[str, str]) -> AsyncIterator[asyncio.subprocess.Process]:
    running = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "dpd_simulator",
        *args,
        env={**os.environ, **env, "PYTHONPATH": str(SIMULATOR)},
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield running
    finally:
        if running.returncode is None:
            running.kill()
        await running.communicate()


async def ready(running: asyncio.subprocess.Process) -> None:
    assert running.stderr is not None
    async with asyncio.timeout(LIMIT_SECONDS):
        while b"listens on" not in await running.stderr.readline():
            assert running.returncode is None


async def test_two_processes_hand_over_through_their_sockets(tmp_path: Path) -> None:
    # an address that nobody has
    net = SimulatedCluster().router_host.removesuffix(".1")
    names = tmp_path / "names.json"
    names.write_text(json.dumps({"router.system.svc": f"{net}.1", "decoder-0": f"{net}.3"}))
    common = ("--names", str(names), "--served-model-name", "m", "--bind-address")
    prefill = TRANSFER | {"kv_role": "kv_producer"}
    context = zmq.asyncio.Context()
    notifications = context.socket(zmq.PULL)
    notifications.bind(f"tcp://{net}.1:7500")
    try:
        async with (
            process(
                *arguments(*common, f"{net}.2", transfer=prefill), env=environment(tmp_path, SENDER)
            ) as sender,
            process(
                *arguments(*common, f"{net}.3", "--enable-prompt-tokens-details"),
                env=environment(tmp_path, RECEIVER),
            ) as receiver,
            aiohttp.ClientSession() as session,
        ):
            await asyncio.gather(ready(sender), ready(receiver))
            prompt = list(range(300, 1300))
            spec = {
                "req_id": "r",
                "receiver_host": "decoder-0",
                "receiver_init_port": [7300],
                "receiver_alloc_port": [7400],
            }
            body = {
                "prompt": prompt,
                "max_tokens": 1,
                "kv_transfer_params": {"ret_first_tok": True, "disagg_spec": spec, "lmcache.tag.r": "r"},
            }
            async with session.post(f"http://{net}.2:8000/v1/completions", json=body) as response:
                first = (await response.json())["kv_transfer_params"]["first_tok"]
            async with asyncio.timeout(LIMIT_SECONDS):
                message = msgspec.msgpack.decode(await notifications.recv())
            assert message == {"type": "ProxyNotif", "req_id": "r"}
            body = {"prompt": [*prompt, first], "max_tokens": 1, "kv_transfer_params": {"lmcache.tag.r": "r"}}
            async with session.post(f"http://{net}.3:8000/v1/completions", json=body) as response:
                usage = (await response.json())["usage"]
            assert usage["prompt_tokens_details"]["cached_tokens"] == 1000
            receiver.send_signal(signal.SIGTERM)
            assert await receiver.wait() == 0
    finally:
        context.destroy(linger=0)


async def test_a_refused_start_ends_with_status_2(tmp_path: Path) -> None:
    async with process("--model", "x", "--no-such-flag", env={}) as running:
        assert await running.wait() == 2
