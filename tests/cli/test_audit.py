"""Changes by commands are noted: who, what, to what, how it went; ``offpath audit`` reads them."""

from __future__ import annotations

import asyncio
import json
import uuid
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import offpath
from offpath.cli.action_log import recorded, rows
from offpath.cli.selection import Selection
from offpath.model.action import ActionFilter, ActionProgress, ActionRecord, ActionState
from offpath.operating.actions import carry_on
from tests.cli.conftest import Run


class Desk:
    """Runs commands on one store, and reads what was noted of them."""

    def __init__(self, run: Run, url: str) -> None:
        self.run = run
        self.url = url

    def __call__(self, *args: str, code: int = 0) -> str:
        done = self.run(*args, "--url", self.url)
        assert done.exit_code == code, done.output
        return done.output

    def noted(self, *args: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self("audit", "list", "--json", *args))["items"]
        return found


@pytest.fixture
def desk(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    monkeypatch.setenv("OFFPATH_ACTOR", "ann")
    url = f"sqlite:///{tmp_path}/work.db"
    asyncio.run(_filled(url))
    return Desk(run, url)


async def _filled(url: str) -> None:
    app = offpath.App(url)

    @app.task(queue="mail")
    def send(n: int) -> None: ...

    async with app:
        await app.enqueue([send.options(delay=60).job(n) for n in range(3)])
        await app.schedules.create("nightly", send.job(1), cron="0 3 * * *", zone="UTC")


def test_a_change_of_rows_is_noted_with_its_filter_and_its_counts(desk: Desk) -> None:
    desk("jobs", "cancel", "--task", "send", "--tag", "x", "--yes")
    desk("jobs", "cancel", "--task", "send", "--yes")
    last, first = desk.noted()
    assert (last["actor"], last["via"], last["verb"]) == ("ann", "cli", "job.cancel")
    assert last["target"]["where"] == {"task": ["send"]}
    assert first["target"]["where"] == {"task": ["send"], "tag": ["x"]}
    assert (last["state"], last["changed"], first["changed"]) == ("done", 3, 0)


def test_waiting_jobs_get_other_terms_and_which_is_noted(desk: Desk) -> None:
    desk(
        *["jobs", "amend", "--task", "send", "--set-queue", "slow", "--set-priority", "5", "--yes"]
    )
    found = json.loads(desk("jobs", "list", "--json"))["items"]
    assert {(one["queue"], one["priority"]) for one in found} == {("slow", 5)}
    (one,) = desk.noted("--verb", "job.amend")
    assert one["target"]["where"] == {"task": ["send"]}
    assert (one["options"], one["changed"]) == ({"priority": 5, "queue": "slow"}, 3)
    late = "2001-01-01T00:00Z"
    desk("jobs", "amend", found[0]["id"], "--set-deadline", late, code=2)
    assert desk.noted("--verb", "job.amend")[0]["state"] == "failed"


def test_what_a_killed_command_began_is_carried_on_with_what_matched_then(desk: Desk) -> None:
    app = offpath.App(desk.url, auto_start=False)

    @app.task(queue="mail")
    def send(n: int) -> None: ...

    class Killed(BaseException):
        """The end of the process in the middle of the command."""

    async def die(_: Any) -> Any:
        raise Killed

    async def scene() -> list[str]:
        async with app:
            target = {"which": Selection(where={"task": ("send",)})}
            with suppress(Killed):
                await recorded("job.cancel", rows)(lambda app, **_: die(app))(app, **target)
            later = await send.options(delay=60).enqueue(9)
            await asyncio.sleep(0)
            (left,) = await app.store().actions(ActionFilter())
            await app.store().step_action(_lapsed(left))
            carried = await carry_on(app, "worker")
            assert carried is not None
            assert (carried.state, carried.changed) == (ActionState.DONE, 3)
            found = (await app.jobs.find(state="queued")).items
            return [one.id for one in found if one.id == later.id]

    assert len(asyncio.run(scene())) == 1


def _lapsed(record: ActionRecord) -> ActionProgress:
    """The lease of a holder that is gone has ended."""
    return ActionProgress(id=record.id, holder=record.holder, lease=0.0)


def test_ids_that_were_left_alone_are_counted(desk: Desk) -> None:
    known = json.loads(desk("jobs", "list", "--json"))["items"][0]["id"]
    other = f"{known[:-1]}{'0' if known[-1] != '0' else '1'}"
    desk("jobs", "run-now", known, other)
    (one,) = desk.noted("--verb", "job.run_now")
    assert (one["changed"], one["unchanged"]) == (1, 1)
    assert one["target"] == {"ids": [known, other]}


@pytest.mark.parametrize(
    ("command", "verb", "target"),
    [
        (("queues", "pause", "mail"), "queue.pause", {"name": "mail"}),
        (("queues", "resume", "mail"), "queue.resume", {"name": "mail"}),
        (("limits", "pause", "smtp"), "limit.pause", {"name": "smtp"}),
        (("limits", "resume", "smtp"), "limit.resume", {"name": "smtp"}),
        (("schedules", "pause", "nightly"), "schedule.pause", {"name": "nightly"}),
        (("schedules", "trigger", "nightly"), "schedule.trigger", {"name": "nightly"}),
        (("schedules", "delete", "nightly", "--yes"), "schedule.delete", {"name": "nightly"}),
        (("jobs", "signal", "t", "paid"), "job.signal", {"target": "t", "event": "paid"}),
        (("router", "disable", "--master"), "router.close", {"name": "master"}),
        (("sweep", "run", "prune"), "sweep.run", {"name": "prune"}),
        (("endpoints", "add", "e", "https://a.example/"), "endpoint.add", {"name": "e"}),
        (("enqueue", "send", "n=7"), "job.enqueue", {"task": "send"}),
        (
            ("dead", "redrive", "--all", "--per-second", "5", "--yes"),
            "job.redrive",
            {"where": {"state": ["dead"]}},
        ),
    ],
)
def test_each_command_that_changes_something_is_noted(
    desk: Desk, command: tuple[str, ...], verb: str, target: dict[str, Any]
) -> None:
    desk(*command)
    (one,) = desk.noted()
    asked = {name: value for name, value in one["target"].items() if name != "before"}
    assert (one["verb"], asked, one["state"]) == (verb, target, "done")
    assert one["options"] == ({"per_second": 5.0} if command[0] == "dead" else {})


def test_no_argument_of_a_new_job_is_noted(desk: Desk) -> None:
    desk("enqueue", "send", "n=7", "note=marker")
    (one,) = desk.noted()
    assert "marker" not in json.dumps(one)
    assert one["changed"] == 1


def test_a_backend_that_keeps_no_actions_is_changed_all_the_same(run: Run, redis_url: str) -> None:
    url = ("--url", f"{redis_url}?durability=process&prefix=audit-{uuid.uuid4().hex}:")
    added = run("enqueue", "send", "n=1", "--json", *url)
    job = json.loads(added.stdout)["id"]
    assert run("jobs", "amend", job, "--set-priority", "4", *url).exit_code == 0
    assert run("jobs", "cancel", job, *url).exit_code == 0
    assert json.loads(run("jobs", "show", job, "--json", *url).stdout)["state"] == "cancelled"


def test_what_failed_is_noted_with_its_reason(desk: Desk) -> None:
    desk("schedules", "trigger", "weekly", code=3)
    (one,) = desk.noted("--state", "failed")
    assert "weekly" in one["error"]


def test_what_was_refused_before_is_not_noted(desk: Desk) -> None:
    desk("jobs", "cancel", "--yes", code=2)
    desk("jobs", "list")
    assert desk.noted() == []


def test_people_read_who_did_what(desk: Desk) -> None:
    desk("queues", "pause", "mail")
    listed = desk("audit", "list")
    assert {"queue.pause", "ann", "cli", "done"} <= set(listed.split())
    (one,) = desk.noted("--actor", "ann")
    shown = desk("audit", "show", one["id"])
    assert "1 paused" in shown
    assert json.loads(desk("audit", "show", one["id"], "--json")) == {"ok": True, **one}
    assert desk.noted("--actor", "bob") == []
    desk("audit", "show", f"{one['id'][:-1]}{'0' if one['id'][-1] != '0' else '1'}", code=3)


def test_without_a_name_it_is_the_user_at_this_machine(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OFFPATH_ACTOR")
    monkeypatch.setenv("LOGNAME", "worker")
    monkeypatch.setattr("socket.gethostname", lambda: "web-1")
    desk("queues", "pause", "mail")
    assert [one["actor"] for one in desk.noted()] == ["worker@web-1"]
