"""The page of one job: its attempts, its steps, its children, and links to other systems."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import offpath
from offpath.errors import InvalidArgument
from offpath.web import dashboard
from offpath.web.console.links import links_of
from offpath.web.console.timeline import SCALE, timeline_of
from tests.unit.web.dashboard.rig import site_for_lookers, site_of

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


def job(**fields: Any) -> dict[str, Any]:
    """A plain document of a job that died of its second attempt."""
    given = {
        "id": "0198",
        "task": "send mail",
        "queue": "mail",
        "state": "dead",
        "attempt": 2,
        "enqueued_at": NOW,
        "started_at": NOW + timedelta(seconds=60),
        "finished_at": NOW + timedelta(seconds=100),
        "worker": None,
        "headers": {"traceparent": f"00-{TRACE}-00f067aa0ba902b7-01"},
        "failures": [failed(1, 10, 30, "w1"), failed(2, 60, 100, "w2")],
    }
    return {**given, **fields}


def failed(attempt: int, start: float | None, end: float, worker: str | None) -> dict[str, Any]:
    """An attempt that failed, by seconds since noon."""
    return {
        "kind": "error",
        "attempt": attempt,
        "at": NOW + timedelta(seconds=end),
        "started_at": None if start is None else NOW + timedelta(seconds=start),
        "worker": worker,
    }


def test_each_attempt_is_as_long_as_it_took() -> None:
    line = timeline_of(job(), NOW)
    assert line is not None
    told = [(one.kind, one.x, one.width) for one in line.marks]
    assert told == [("failed", 100, 200), ("failed", 600, 400)]
    assert line.marks[0].text == "attempt 1 failed after 20 s"


def test_an_attempt_whose_start_was_not_kept_is_a_mark_at_its_end() -> None:
    line = timeline_of(job(failures=[failed(1, None, 30, None), failed(2, 60, 100, "w")]), NOW)
    assert line is not None
    assert (line.marks[0].x, line.marks[0].text) == (300, "attempt 1 failed")
    assert all(0 <= one.x <= SCALE - one.width for one in line.marks)


def test_a_link_is_made_of_what_the_job_has() -> None:
    templates = {
        "Logs": "https://logs.example/?q={job_id}&task={task}",
        "Trace": "https://traces.example/{trace_id}",
        "Host": "https://hosts.example/{worker}",
    }
    assert links_of(job(), templates) == [
        ("Logs", "https://logs.example/?q=0198&task=send%20mail"),
        ("Trace", f"https://traces.example/{TRACE}"),
        ("Host", "https://hosts.example/w2"),
    ]
    bare = job(headers="hidden", failures=[])
    assert [name for name, _ in links_of(bare, templates)] == ["Logs"]
    assert links_of(job(headers={"traceparent": "<x>"}), templates)[1][0] == "Host"


def test_a_link_of_an_unknown_field_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="no field 'span'"):
        dashboard("memory://", auth=False, links={"Trace": "https://x.example/{span}"})


async def test_a_job_tells_its_steps_and_what_it_enqueued() -> None:
    app = offpath.App("memory://", auto_start=False)

    @app.task
    async def part(n: int) -> int:
        return n

    @app.task
    async def whole(ctx: offpath.Context) -> offpath.Plan[Any, Any]:
        await ctx.step("render", _render)
        return ctx.queue(part.job(0), part.job(1))

    async with app, app.worker():
        handle = await whole.enqueue()
        await handle.result(timeout=50)
        site = site_of(app, links={"Logs": "https://logs.example/?q={job_id}"})
        (step,) = (await site.get(f"/api/v1/jobs/{handle.id}/steps")).document["items"]
        assert (step["name"], step["result"]) == ("render", {"pages": 3, "token": "***"})
        assert step["at"] is not None
        told = (await site.get(f"/api/v1/jobs/{handle.id}/children")).document
        assert [one["task"] for one in told["items"]] == ["part", "part"]
        page = (await site.get(f"/jobs/{handle.id}")).text
        assert 'id="steps-title"' in page
        assert 'id="children-title"' in page
        assert f"https://logs.example/?q={handle.id}" in page
        hidden = site_for_lookers(app)
        (step,) = (await hidden.get(f"/api/v1/jobs/{handle.id}/steps")).document["items"]
        assert step["result"] == "hidden"
        assert 'id="steps-title"' not in (await site.get(f"/jobs/{told['items'][0]['id']}")).text


async def _render() -> dict[str, object]:
    return {"pages": 3, "token": "hunter2"}


@pytest.mark.parametrize("failures", [2, 6])
async def test_a_job_that_died_at_its_gate_offers_what_failed_instead(failures: int) -> None:
    """A redrive of its own would leave it as it is."""
    app = offpath.App("memory://", auto_start=False)

    @app.task
    async def part(n: int) -> None: ...

    @app.task
    async def last() -> None: ...

    async with app:
        late = [await part.options(delay=3600).enqueue(n) for n in range(failures)]
        (held,) = await app.enqueue([offpath.gate(on=late, queue=[last.job()])])
        await app.jobs.cancel(*(one.id for one in late))
        site = site_of(app)
        page = (await site.get(f"/jobs/{held.id}")).text
        assert "<button>Redrive</button>" not in page
        named = [f'name="id" value="{one.id}"' in page for one in late]
        if failures == 2:
            assert "Redrive what failed" in page
            assert all(named)
            assert f"offpath jobs redrive {late[0].id} {late[1].id}" in page
        else:
            assert "What failed</a>" in page
            assert not any(named)


async def test_a_job_tells_how_many_attempts_it_has_and_its_arguments_can_be_copied(
    app: offpath.App,
) -> None:
    tasks = app.tasks
    once = (await app.jobs.find(task="send_mail", state="dead", limit=1)).items[0]
    often = await tasks["add"].options(retry=7, delay=60).enqueue(1, b=2)
    by_task = await tasks["add"].options(delay=60).enqueue(1, b=2)
    site = site_of(app)
    told = [
        (await site.get(f"/api/v1/jobs/{one}")).document["most_attempts"]
        for one in (once.id, often.id, by_task.id)
    ]
    assert told == [1, 7, 3]
    page = (await site.get(f"/jobs/{once.id}")).text
    assert "<dt>Attempt</dt><dd>1 of 1</dd>" in page
    assert 'aria-label="Copy the arguments"' in page
    assert "No worker has had it" in (await site.get(f"/jobs/{often.id}")).text
    huge = await tasks["export"].enqueue(month="x" * 5_000)
    assert 'aria-label="Copy the arguments"' not in (await site.get(f"/jobs/{huge.id}")).text
