"""``offpath stubs``: another service calls a task by a module that was written for it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import offpath
from offpath.errors import InvalidInput
from tests.cli.conftest import Run
from tests.sqlite_files import migrated_url
from tests.typing import shop_service as service
from tests.typing.shop_tasks import Line, Order, Size, Tasks

TARGET = "tests.typing.shop_service:app"
WRITTEN = Path(__file__).parents[1] / "typing" / "shop_tasks.py"


def test_what_is_in_the_repository_is_what_it_writes(run: Run, tmp_path: Path) -> None:
    fresh = run("stubs", TARGET, "--check", str(WRITTEN), "--json")
    assert fresh.exit_code == 0, fresh.output
    file = tmp_path / "tasks.py"
    assert run("stubs", TARGET, "--output", str(file)).exit_code == 0
    assert file.read_text() == WRITTEN.read_text()
    assert run("stubs", TARGET).output == WRITTEN.read_text()


def test_a_stale_one_fails_and_says_what_differs(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "tasks.py"
    assert "is stale: offpath stubs" in run("stubs", TARGET, "--check", str(file)).output
    file.write_text(WRITTEN.read_text().replace("copies: int", "copies: str"))
    stale = run("stubs", TARGET, "--check", str(file))
    assert stale.exit_code == 1
    assert "+def _shop_invoice(order: Order, copies: int = 1" in stale.output


async def test_a_job_of_another_service_runs_there_as_that_one_says(tmp_path: Path) -> None:
    url = migrated_url(tmp_path / "work.db")
    ours, theirs = offpath.App(url, auto_start=False), offpath.App(url, auto_start=False)
    for task in service.app.tasks.values():
        theirs.tasks.add(task)
    tasks = Tasks(ours)
    order = Order(number=4, lines=[Line(sku="a"), Line(sku="b")], size=Size.LARGE)
    async with ours, theirs:
        handle = await tasks.shop_invoice.enqueue(order, copies=2, mode="b")
        many = await tasks.many.enqueue("four")
        (first, second) = [await tasks.anything.enqueue(1, 2, a="b") for _ in range(2)]
        assert first.id == second.id, "its unique key goes along"
        await ours.worker().run_until_idle()
        record = await ours.jobs.get(handle.id)
        assert record.state is offpath.JobState.QUEUED, "none of ours"
        assert (record.queue, record.priority, record.limit_key) == ("money", 3, "api")
        await theirs.worker().run_until_idle()
        receipt = await handle.result()
        assert (receipt.number, receipt.lines, receipt.size) == (8, 2, Size.LARGE)
        assert (await handle.status()).attempt == 2, "by its own retries"
        assert await many.result() == 4
        assert await first.result() == {"a": (1, 2)}


async def test_its_arguments_are_checked_here(tmp_path: Path) -> None:
    async with offpath.App(migrated_url(tmp_path / "work.db"), auto_start=False) as ours:
        with pytest.raises(InvalidInput, match=r"shop\.invoice"):
            await Tasks(ours).shop_invoice.enqueue("no order")  # type: ignore[arg-type]


LOCAL = """
import dataclasses, offpath
app = offpath.App()

def local():
    @dataclasses.dataclass
    class Order:
        a: int

    @app.task
    def order(given: Order) -> None: ...

local()
"""
TWINS = """
import offpath
app = offpath.App()
app.task(name="a.b")(lambda: None)
app.task(name="a_b")(lambda: None)
"""


@pytest.mark.parametrize(
    ("service", "told"),
    [(LOCAL, "has no name outside of its service"), (TWINS, "would both be 'a_b'")],
)
def test_what_cannot_be_named_elsewhere_is_refused(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, service: str, told: str
) -> None:
    (tmp_path / "stubbed.py").write_text(service)
    monkeypatch.delitem(sys.modules, "stubbed", raising=False)
    found = run("stubs", "stubbed:app")
    assert found.exit_code == 2
    assert told in found.output
    assert run("stubs", "stubbed:app", "--check", "a", "--output", "b").exit_code == 2
