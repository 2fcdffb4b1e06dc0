"""``offpath groups``, and what ``offpath jobs show`` tells of a job that waits."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import pytest

import offpath
from offpath import App, Context, Limit, Plan
from offpath.model.job import JobState
from offpath.operating.job_waits import _names
from offpath.runtime.ids import new_id
from tests.cli.conftest import Run, document

KEY = "the order's key"


class Shell:
    """Runs the commands on one store."""

    def __init__(self, run: Run, url: str) -> None:
        self._run = run
        self.url = url

    def json(self, *args: str, code: int = 0) -> Any:
        done = self._run(*args, "--url", self.url, "--json")
        assert done.exit_code == code, done.output
        return document(done)

    def text(self, *args: str, code: int = 0) -> str:
        done = self._run(*args, "--url", self.url)
        assert done.exit_code == code, done.output
        assert "\x1b" not in done.output
        return done.output


@pytest.fixture
def shell(run: Run, migrated: str) -> Shell:
    return Shell(run, migrated)


def made(url: str) -> App:
    """An app with what the tests need."""
    app = App(url)

    @app.task
    def note(word: str) -> dict[str, str]:
        return {"word": word, "token": "marker"}

    @app.task(retry=1)
    def breaks() -> None:
        raise ValueError("\x1b[31mno password=hunter2")

    @app.task
    async def fan(ctx: Context) -> Plan[None, dict[str, str]]:
        return ctx.queue(note.job("a"), breaks.job(), note.options(delay=3600).job("late"))

    @app.task
    async def order(ctx: Context) -> str:
        await ctx.step("charge", str, "charged")
        await ctx.sleep(0, name="a while")
        return str(await ctx.wait_for("approved", key=KEY))

    @app.task(queue="mail", limit=Limit(key="smtp", max_running=1))
    def send(n: int) -> None: ...

    return app


def filled(url: str, fill: Callable[[App], Awaitable[tuple[str, ...]]]) -> tuple[str, ...]:
    async def go() -> tuple[str, ...]:
        async with made(url) as app:
            return await fill(app)

    return asyncio.run(go())


async def a_group(app: App) -> tuple[str, ...]:
    root = await app.tasks["fan"].enqueue()
    await app.worker().run_until_idle()
    members = await app.groups.members(root.id)
    (failed,) = (one.id for one in members.items if one.state is JobState.DEAD)
    (late,) = (one.id for one in members.items if one.state is JobState.QUEUED)
    return root.id, failed, late


def test_a_group_is_shown_with_its_counts_value_and_members(shell: Shell) -> None:
    root, failed, late = filled(shell.url, a_group)
    shown = shell.json("groups", "show", root)
    assert (shown["id"], shown["state"], shown["open"], shown["failed"]) == (root, "open", 1, 1)
    assert shown["counts"] == {"succeeded": 2, "dead": 1, "queued": 1}
    assert shown["value"] == {"word": "a", "token": "***"}
    assert [one["id"] for one in shown["open_members"]["items"]] == [late]
    assert [one["id"] for one in shown["failed_members"]["items"]] == [failed]
    text = shell.text("groups", "show", root)
    assert "open (1 open, 1 failed)" in text
    assert failed in text
    assert late in text
    assert "marker" not in text
    assert "hunter2" not in text


def test_groups_are_listed_newest_first(shell: Shell) -> None:
    assert shell.text("groups", "list") == "no job has queued others\n"
    assert shell.text("groups", "list", "--open") == "no group is open\n"
    first, _, _ = filled(shell.url, a_group)
    second, _, _ = filled(shell.url, a_group)
    shell.json("groups", "cancel", first)
    page = shell.json("groups", "list", "--limit", "1")
    assert ([one["id"] for one in page["items"]], page["next"]) == ([second], second)
    rest = shell.json("groups", "list", "--after", second)["items"]
    assert [(one["id"], one["task"], one["state"]) for one in rest] == [(first, "fan", "failed")]
    opened = shell.json("groups", "list", "--open")["items"]
    assert [(one["id"], one["open"], one["failed"]) for one in opened] == [(second, 1, 1)]
    assert f"{second}  fan   open" in shell.text("groups", "list")


def test_members_of_a_group_are_listed_up_to_the_limit(shell: Shell) -> None:
    async def two(app: App) -> tuple[str, ...]:
        note = app.tasks["note"]
        watched = await note.options(delay=3600).enqueue("x")
        gate = offpath.gate(on=[watched], queue=[note.job("0"), note.job("1")])
        (first,) = await app.enqueue([gate])
        return (first.id,)

    (root,) = filled(shell.url, two)
    listed = shell.json("groups", "show", root, "--limit", "1")["open_members"]
    assert ([one["id"] for one in listed["items"]], listed["next"]) == ([root], root)
    assert f"jobs list --group {root}" in shell.text("groups", "show", root, "--limit", "1")


def test_a_group_is_cancelled_once(shell: Shell) -> None:
    root, _, late = filled(shell.url, a_group)
    changed = shell.json("groups", "cancel", root)["changed"]
    assert [(one["id"], one["state"]) for one in changed] == [(late, "cancelled")]
    assert shell.text("groups", "cancel", root) == "0 cancelled\n"
    shown = shell.json("groups", "show", root)
    assert (shown["state"], shown["open"], shown["failed"]) == ("failed", 0, 2)


@pytest.mark.parametrize("verb", ["show", "cancel"])
def test_what_is_no_group_is_not_found(shell: Shell, verb: str) -> None:
    nobody = "0198c0de-0000-7000-8000-000000000000"
    assert shell.json("groups", verb, nobody, code=3)["error"]["code"] == "job_not_found"
    assert shell.json("groups", verb, "nobody", code=2)["error"]["code"] == "invalid_argument"


@pytest.mark.parametrize("verb", ["show", "cancel"])
def test_the_id_of_a_member_is_answered_with_that_of_its_group(shell: Shell, verb: str) -> None:
    root, failed, late = filled(shell.url, a_group)
    assert f"member of the group {root}" in shell.text("groups", verb, failed, code=2)
    assert shell.json("jobs", "show", late)["state"] == "queued"


def test_a_job_at_a_gate_tells_its_counts_and_whom_it_waits_for(shell: Shell) -> None:
    async def gated(app: App) -> tuple[str, ...]:
        note = app.tasks["note"]
        early = await note.enqueue("early")
        await app.worker().run_until_idle()
        late = await note.options(delay=3600).enqueue("late")
        gate = offpath.gate(on=[early, late], queue=[note.job("after")])
        (held,) = await app.enqueue([gate])
        return held.id, late.id

    held, late = filled(shell.url, gated)
    waits = shell.json("jobs", "show", held)["waits_for"]
    assert (waits["kind"], waits["need"], waits["watched"]) == ("gate", 2, 2)
    assert (waits["succeeded"], waits["failed"], waits["open"]) == (1, 0, 1)
    assert waits["waiting_for"] == [late]
    assert waits["deadline"] is None
    assert f"1 succeeded, 0 failed, 1 open: {late}\n" in shell.text("jobs", "show", held)
    assert "blocked (gate)" in shell.text("jobs", "list")


def test_a_job_at_a_gate_with_a_timeout_tells_until_when(shell: Shell) -> None:
    async def gated(app: App) -> tuple[str, ...]:
        note = app.tasks["note"]
        late = await note.options(delay=3600).enqueue("late")
        (held,) = await app.enqueue(
            [offpath.gate(on=[late], queue=[note.job("after")], timeout=7200)]
        )
        return (held.id,)

    (held,) = filled(shell.url, gated)
    until = shell.json("jobs", "show", held)["waits_for"]["deadline"]
    assert datetime.fromisoformat(until) > datetime.now(UTC)
    assert f"1 open, until {until[:10]}" in shell.text("jobs", "show", held)


def test_a_job_that_died_at_its_gate_tells_which_jobs_closed_it(shell: Shell) -> None:
    async def gated(app: App) -> tuple[str, ...]:
        note = app.tasks["note"]
        fine, late = await note.enqueue("early"), await note.options(delay=3600).enqueue("late")
        (held,) = await app.enqueue([offpath.gate(on=[fine, late], queue=[note.job("after")])])
        await app.jobs.cancel(late.id)
        return held.id, late.id

    held, late = filled(shell.url, gated)
    shown = shell.json("jobs", "show", held)
    assert (shown["reason"], shown["waits_for"]) == ("unsatisfiable", None)
    assert (shown["waited_for"]["failed"], shown["waited_for"]["failed_jobs"]) == (1, [late])
    text = shell.text("jobs", "show", held)
    assert "waits for" not in text
    assert f"2 of 2 jobs to succeed; 0 succeeded, 1 failed ({late}), 1 open" in text
    assert "waited for" not in shell.text("jobs", "show", late)


def test_counts_of_a_gate_that_gave_up_are_those_of_its_jobs(shell: Shell) -> None:
    async def gated(app: App) -> tuple[str, ...]:
        note = app.tasks["note"]
        several = [await note.options(delay=3600).enqueue(str(n)) for n in range(4)]
        (held,) = await app.enqueue([offpath.gate(on=several, queue=[note.job("after")])])
        for late in several[:2]:  # the second after the gate had given up
            await app.jobs.cancel(late.id)
        await app.jobs.delete(several[1].id)
        await app.jobs.cancel(several[2].id)
        return held.id, several[0].id, several[2].id

    held, *failed = filled(shell.url, gated)
    told = shell.json("jobs", "show", held)["waited_for"]
    assert (told["succeeded"], told["failed"], told["open"]) == (0, 2, 1)
    assert told["failed_jobs"] == failed
    text = shell.text("jobs", "show", held)
    named = " ".join(failed)
    assert f"0 succeeded, 2 failed ({named}), 1 open, 1 not in the store (any more)" in text


def test_the_value_of_a_group_with_failed_members_says_what_it_is(shell: Shell) -> None:
    root, _, _ = filled(shell.url, a_group)
    told = "(without what failed members were to give)"
    assert told in shell.text("groups", "show", root)

    async def fine(app: App) -> tuple[str, ...]:
        job = await app.tasks["note"].enqueue("a")
        await app.worker().run_until_idle()
        return (job.id,)

    (root,) = filled(shell.url, fine)
    assert told not in shell.text("groups", "show", root)


def test_a_job_that_waits_for_a_signal_tells_how_to_send_it(shell: Shell) -> None:
    async def waiting(app: App) -> tuple[str, ...]:
        job = await app.tasks["order"].enqueue()
        await app.worker().run_until_idle()
        return (job.id,)

    (job,) = filled(shell.url, waiting)
    shown = shell.json("jobs", "show", job)
    assert (shown["state"], shown["reason"]) == ("blocked", "signal")
    assert shown["waits_for"]["target"] == KEY
    assert shown["waits_for"]["event"] == "approved"
    assert shown["steps"] == ["charge", "sleep a while"]
    assert "jobs signal 'the order'\"'\"'s key' approved\n" in shell.text("jobs", "show", job)
    assert shell.text("jobs", "signal", KEY, "approved") == "sent\n"
    told = shell.json("jobs", "show", job)
    assert (told["state"], told["waits_for"], told["wait_target"]) == ("queued", None, None)


def test_a_held_job_tells_its_key_and_whether_that_is_closed(shell: Shell) -> None:
    async def held(app: App) -> tuple[str, ...]:
        await app.limits.pause("smtp")
        return ((await app.tasks["send"].enqueue(1)).id,)

    (job,) = filled(shell.url, held)
    waits = shell.json("jobs", "show", job)["waits_for"]
    assert (waits["kind"], waits["key"], waits["max_running"]) == ("limit", "smtp", 1)
    assert (waits["state"], waits["held"], waits["admitted"]) == ("paused", 1, 0)
    assert "paused: offpath limits resume smtp\n" in shell.text("jobs", "show", job)
    shell.text("queues", "pause", "mail")
    assert shell.json("jobs", "show", job)["waits_for"]["kind"] == "pause"
    assert "offpath queues resume mail\n" in shell.text("jobs", "show", job)


def test_a_job_that_waits_for_nothing_says_nothing(shell: Shell) -> None:
    async def plain(app: App) -> tuple[str, ...]:
        return ((await app.tasks["note"].enqueue("x")).id,)

    (job,) = filled(shell.url, plain)
    shown = shell.json("jobs", "show", job)
    assert (shown["waits_for"], shown["steps"]) == (None, [])
    assert "waits for" not in shell.text("jobs", "show", job)


def test_records_of_a_job_are_named_as_its_handler_knows_them() -> None:
    recorded = ["charge", "~sleep #1", "~wait go#1", "~wait2 go#1", "~until go#1", "~missed go#2"]
    assert list(_names(recorded)) == [
        "charge",
        "sleep #1",
        "wait go#1",
        "wait go#1, signal 2",
        "wait that timed out go#2",
    ]


def test_a_redrive_says_how_many_are_left_behind_what_failed(shell: Shell) -> None:
    async def fail() -> tuple[str, str, str]:
        app = made(shell.url)

        @app.task
        async def last() -> None:
            raise AssertionError("it ran beside what it was to wait for")

        @app.task
        async def chain(ctx: Context) -> Plan[None, None]:
            return ctx.queue(app.tasks["breaks"].job()).next(last.job())

        async with app:
            root = await chain.enqueue()
            await app.worker().run_until_idle()
            (left,) = (await app.dead.list(task="last")).items
            (broken,) = (await app.dead.list(task="breaks")).items
            return left.id, broken.id, root.id

    left, broken, root = asyncio.run(fail())
    told = "1 left behind failed jobs: redrive those, and they wait for them again"
    alone = f"{left}  left alone: behind failed jobs, redrive those first: {broken}"
    unknown, ended = new_id(), root
    assert told in shell.text("dead", "redrive", "--task", "last", "--yes")
    assert told in shell.text("jobs", "redrive", "--reason", "unsatisfiable", "--yes")
    assert alone in shell.text("dead", "redrive", left, code=3)
    for command in ("redrive", "cancel", "run-now"):
        said = shell.text("jobs", command, unknown, ended, code=3)
        assert f"{unknown}  left alone: unknown\n" in said
        assert f"{ended}  left alone: its state is succeeded\n" in said
    said = shell.text("dead", "discard", ended, "--yes", code=3)
    assert f"{ended}  left alone: its state is succeeded\n" in said
    assert f"{left}  left alone: its state is dead (unsatisfiable)" in shell.text(
        "jobs", "cancel", left, code=3
    )
    answer = shell.json("dead", "redrive", "--task", "last", "--yes")
    assert (answer["changed"], answer["left_behind"]) == ([], 1)
    everything = shell.text("dead", "redrive", "--all", "--yes")
    assert "2 redriven" in everything
    assert told not in everything
    assert "left:" not in shell.text("dead", "redrive", "--task", "other", "--yes")


def test_what_is_left_behind_its_gate_does_not_count_as_one_of_the_limit(shell: Shell) -> None:
    async def gated(app: App) -> tuple[str, ...]:
        late = await app.tasks["note"].options(delay=3600).enqueue("late")
        (held,) = await app.enqueue(
            [offpath.gate(on=[late], queue=[app.tasks["note"].job("after")])]
        )
        await app.jobs.cancel(late.id)
        broken = await app.tasks["breaks"].enqueue()
        await app.worker().run_until_idle()
        return held.id, broken.id

    held, broken = filled(shell.url, gated)
    told = shell.json("dead", "redrive", "--all", "--limit", "1", "--yes")
    assert ([one["id"] for one in told["changed"]], told["left_behind"]) == ([broken], 1)
    assert shell.json("jobs", "show", broken)["redrives"] == 1
    assert "redrives  1\n" in shell.text("jobs", "show", broken)
    assert "waited for  gate" in shell.text("dead", "show", held)
    assert "\ndied at its gate " in shell.text("dead", "show", held)
    assert "\nattempt 1 failed " in shell.text("jobs", "show", broken)
    assert shell.json("dead", "show", held)["waited_for"]["failed"] == 1
