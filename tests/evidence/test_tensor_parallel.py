"""The hand-off between engines of several ranks, run with simulated engines; and what reads and disturbs it on GPUs."""

import json
from pathlib import Path

import msgspec
import zmq

from hyperpod_dpd.derive import resolve
from hyperpod_dpd.physics import kv_bytes_per_token_per_rank
from hyperpod_dpd.rehearsal.addresses import Addresses
from hyperpod_dpd.serving.engine import engine_configuration
from hyperpod_dpd.spec import Role
from hyperpod_dpd.spec.load import load
from tests.support.deployments import ROOT
from tests.support.evidence import run_simulated
from tools.evidence import standin
from tools.evidence.engines import EngineProcess
from tools.evidence.notification_relay import NotificationRelay
from tools.evidence.ranks import RankTokens, transfers


def test_both_ranks_notify_and_a_restarted_prefiller_is_used_again(tmp_path: Path) -> None:
    standin.write(tmp_path / "model", ranks=2)
    run_simulated(
        "tensor_parallel", "--users", "2",
        "--prefill-gpus", "0,1", "--decode-gpus", "0,1", "--losses", "0", "--after", "3",
        "--load-seconds", "0.5", "--host", Addresses().pod(),
        "--out", tmp_path, "--scratch", tmp_path / "scratch", "--model", tmp_path / "model",
    )  # fmt: skip
    results = [json.loads(line) for line in (tmp_path / "tensor-parallel.jsonl").read_text().splitlines()]
    first, second = (result for result in results if result["what"] == "mixed traffic")
    for result in (first, second):
        assert (result["requests"], result["complete"], result["errors"]) == (20, 20, [])
    ranks = next(result for result in results if result["what"] == "ranks")
    assert ranks["handoffs_by_notifications"].keys() == {"2"}
    engines = [result["engine"] for result in results if result["what"] == "engine ready"]
    assert engines == ["decode", "prefill", "prefill"]
    disaggregated = 'decisions_total{decision="disaggregated",reason="threshold"}'
    restart = next(result for result in results if result["what"] == "restart under load")
    assert restart["served"] == restart["requests"] > 0
    assert second["router"][disaggregated] > restart["router"][disaggregated]
    assert second["router"]["handoffs_open"] == 0


def test_relay_loses_the_last_notification_of_as_many_handoffs_as_asked() -> None:
    host = Addresses().pod()
    with zmq.Context() as context, context.socket(zmq.PULL) as target, context.socket(zmq.PUSH) as ranks:
        port = target.bind_to_random_port(f"tcp://{host}")
        source = f"tcp://{host}:{port - 1}"
        with NotificationRelay(source, f"tcp://{host}:{port}").running() as relay:
            ranks.connect(source)
            relay.lose(1)
            for handoff in ("a", "a", "b", "b"):
                ranks.send(msgspec.msgpack.encode({"type": "ProxyNotif", "req_id": handoff}))
            target.setsockopt(zmq.RCVTIMEO, 60_000)
            passed = [msgspec.msgpack.decode(target.recv())["req_id"] for _ in range(3)]
            assert passed == ["a", "b", "b"]
            assert relay.lost == ["a"]
            assert relay.per_handoff() == {2: 2}


def test_transfers_are_counted_per_rank_and_incomplete_ones_are_seen(tmp_path: Path) -> None:
    log = tmp_path / "decode.log"
    line = (
        "({process} pid=7) \x1b[32;20m[2026-11-30 12:28:37,767] LMCache INFO:\x1b[0m [req_id=cmpl-1] "
        "Retrieved {tokens} out of {wanted} required tokens (from 4096 total tokens). size: 0.1 gb\n"
    )
    log.write_text(
        "".join(
            line.format(process=process, tokens=tokens, wanted=4096)
            for process, tokens in (("Worker_TP0", 4096), ("Worker_TP1", 4096), ("Worker_TP0", 3840))
        )
        + "(Worker_TP0 pid=7) LMCache INFO: Stored 4096 out of total 4096 tokens. size: 0.1562 GB\n"
    )
    assert transfers(log, "Retrieved") == {
        "Worker_TP0": RankTokens(transfers=2, incomplete=1, tokens=7936),
        "Worker_TP1": RankTokens(transfers=1, tokens=4096),
    }
    assert transfers(log, "Stored") == {"Worker_TP0": RankTokens(transfers=1, tokens=4096)}


def test_lines_of_ranks_that_write_at_once_are_counted_for_both(tmp_path: Path) -> None:
    """As seen on a GPU: both marks before the first line, none before the second."""
    log = tmp_path / "prefill.log"
    log.write_text(
        "(Worker_TP0 pid=7) (Worker_TP1 pid=8) LMCache INFO: Stored 4096 out of total 4096 tokens. size: 0.1562 GB\n"
        "LMCache INFO: Stored 4096 out of total 4096 tokens. size: 0.1562 GB\n"
        "(Worker_TP1 pid=8) LMCache WARNING: something else\n"
        "(Worker_TP0 pid=7) LMCache INFO: Stored 8192 out of total 8192 tokens. size: 0.3125 GB\n"
    )
    assert transfers(log, "Stored") == {
        "Worker_TP0": RankTokens(transfers=2, tokens=12_288),
        "Worker_TP1": RankTokens(transfers=1, tokens=4_096),
    }


NARROW = ROOT / "tools/evidence/tensor-parallel-narrow.yaml"
WHOLE = ROOT / "tools/evidence/tensor-parallel.yaml"


def test_ranks_on_one_gpu_are_told_to_share_it_and_nothing_else_changes(tmp_path: Path) -> None:
    configuration = engine_configuration(load(NARROW).deployment, Role.DECODE)

    def engine(*gpus: int) -> EngineProcess:
        return EngineProcess(
            name="decode", configuration=configuration, model=tmp_path / "model", port=8200, gpus=gpus,
            scratch=tmp_path, logs=tmp_path,
        )  # fmt: skip

    shared, apart = engine(0, 0), engine(0, 1)
    added = [word for word in shared.command() if word not in apart.command()]
    assert added[:2] == ["--worker-cls", "tools.evidence.shared_gpu_worker.SharedGpuWorker"]
    assert [word for word in shared.command() if word not in added] == apart.command()
    assert shared.environment()["CUDA_VISIBLE_DEVICES"] == "0"
    assert apart.environment()["CUDA_VISIBLE_DEVICES"] == "0,1"
    assert shared.environment()["VLLM_DISABLE_PYNCCL"] == "1"
    assert "VLLM_DISABLE_PYNCCL" not in apart.environment()


def test_both_stand_ins_hand_over_as_many_bytes_and_are_described_as_they_are_written(tmp_path: Path) -> None:
    bytes_per_token = set()
    for file, narrow in ((WHOLE, False), (NARROW, True)):
        deployment = load(file).deployment
        written = tmp_path / file.stem
        standin.write(written, deployment.serving.tensor_parallel, narrow=narrow)
        described = deployment.model.config_file
        assert described is not None
        assert json.loads((file.parent / described).read_text()) == json.loads(
            (written / "config.json").read_text()
        )
        bytes_per_token.add(kv_bytes_per_token_per_rank(resolve(deployment).geometry, "bf16", 2))
    assert bytes_per_token == {40_960}
