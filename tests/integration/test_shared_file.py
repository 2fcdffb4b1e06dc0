"""C7: many processes on one SQLite file meet no lock error and lose nothing."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

from offpath import App, JobState

_PROCESSES = 4
_EACH = 40

_SERVICE = """
import asyncio, sys
from offpath import App

app = App(sys.argv[1], auto_start=False)


@app.task
async def work(number: int) -> int:
    return number


async def main() -> None:
    first, count = int(sys.argv[2]), int(sys.argv[3])
    async with app:
        for number in range(first, first + count):
            await work.enqueue(number)
            if number % 10 == 0:
                await app.worker().run_until_idle()
                await app.store().prune(limit=10)
        await app.worker().run_until_idle()


asyncio.run(main())
"""


def _run(program: Path, url: str) -> list[tuple[int, str]]:
    """Let the processes run at once; the exit code of each, and what it said."""
    running = [
        subprocess.Popen(
            [sys.executable, str(program), url, str(which * 1_000), str(_EACH)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for which in range(_PROCESSES)
    ]
    try:
        said = [process.communicate(timeout=60)[0] for process in running]
    finally:
        for process in running:
            process.kill()
    return [(process.returncode, text) for process, text in zip(running, said, strict=True)]


async def test_many_processes_share_a_file_without_a_lock_error(tmp_path: Path) -> None:
    program, url = tmp_path / "service.py", f"sqlite:///{tmp_path / 'jobs.db'}"
    program.write_text(_SERVICE, "utf-8")
    assert await asyncio.to_thread(_run, program, url) == [(0, "")] * _PROCESSES
    async with App(url, auto_start=False) as app:

        @app.task
        async def work(number: int) -> int:
            return number

        await app.worker().run_until_idle()
        done = [one async for one in app.jobs.each(state=JobState.SUCCEEDED)]
    expected = [which * 1_000 + n for which in range(_PROCESSES) for n in range(_EACH)]
    assert sorted(int(one.result or -1) for one in done) == expected
    assert {one.deliveries for one in done} == {1}
