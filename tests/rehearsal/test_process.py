"""Processes end, and nothing that they have started outlives them."""

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from hyperpod_dpd.rehearsal.process import LocalProcess, left_behind
from tests.rehearsal.support import LIMIT_SECONDS


async def test_a_process_ends_with_everything_that_it_started(tmp_path: Path) -> None:
    # of this run alone: another one on this machine may be at the same test
    mark = f"test-group-{os.getpid()}"
    environment = {"PATH": os.environ["PATH"], "DPD_REHEARSAL": mark}
    process = await LocalProcess.start(
        ["sh", "-c", "sleep 600 & sleep 600 & echo started; wait"],
        environment=environment,
        log=tmp_path / "log",
    )
    async with asyncio.timeout(LIMIT_SECONDS):
        while "started" not in process.tail():  # noqa: ASYNC110 -- a file tells nobody
            await asyncio.sleep(0.01)
        assert len(left_behind(mark)) == 3
        await process.stop(5)
    assert left_behind(mark) == []


@pytest.mark.skipif(sys.platform != "linux", reason="other kernels have no /proc")
async def test_a_process_that_replaces_its_program_is_found_all_the_same(tmp_path: Path) -> None:
    mark = f"test-replaced-{os.getpid()}"
    again = tmp_path / "again"
    again.write_text(f"#!/bin/sh\nexec {again}\n")
    again.chmod(0o755)
    process = await LocalProcess.start(
        [str(again)],
        environment={"PATH": os.environ["PATH"], "DPD_REHEARSAL": mark},
        log=tmp_path / "log",
    )
    async with asyncio.timeout(LIMIT_SECONDS):
        while not left_behind(mark):  # noqa: ASYNC110 -- a process that begins tells nobody
            await asyncio.sleep(0.01)
        # without a second look, one in seven was missed
        assert [len(left_behind(mark)) for _ in range(50)] == [1] * 50
        process.kill()
        await process.wait()


@pytest.mark.skipif(sys.platform != "linux", reason="other kernels know no parent-death signal")
async def test_what_a_process_has_started_ends_as_well_when_the_rehearsal_is_killed(tmp_path: Path) -> None:
    mark = f"test-killed-{os.getpid()}"
    code = (
        "import asyncio, os, pathlib\n"
        "from hyperpod_dpd.rehearsal.guard import guarded\n"
        "from hyperpod_dpd.rehearsal.process import LocalProcess\n"
        "async def main():\n"
        f"  async with guarded({mark!r}):\n"
        f"    environment = {{'PATH': os.environ['PATH'], 'DPD_REHEARSAL': {mark!r}}}\n"
        "    command = ['sh', '-c', 'setsid sleep 600 & echo started; wait']\n"
        f"    process = await LocalProcess.start(command, environment=environment, log=pathlib.Path({str(tmp_path / 'log')!r}))\n"
        "    while 'started' not in process.tail():\n"
        "        await asyncio.sleep(0.01)\n"
        "    print('started', flush=True)\n"
        "    await asyncio.sleep(600)\n"
        "asyncio.run(main())\n"
    )
    parent = await asyncio.create_subprocess_exec(sys.executable, "-c", code, stdout=asyncio.subprocess.PIPE)
    assert parent.stdout is not None
    async with asyncio.timeout(LIMIT_SECONDS):
        await parent.stdout.readline()
        parent.send_signal(signal.SIGKILL)
        await parent.wait()
        while left_behind(mark):  # noqa: ASYNC110 -- a process that ends tells only its parent
            await asyncio.sleep(0.01)


async def test_a_program_that_does_not_exist_says_so(tmp_path: Path) -> None:
    process = await LocalProcess.start(
        ["no-such-program"], environment={"PATH": "/usr/bin"}, log=tmp_path / "log"
    )
    async with asyncio.timeout(LIMIT_SECONDS):
        assert await process.wait() == 127
    assert "no-such-program: No such file or directory" in process.tail()
