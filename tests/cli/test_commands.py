"""Every verb, on SQLite and Postgres: what it prints, what it returns."""

from __future__ import annotations

import asyncio
import errno
from datetime import datetime
from pathlib import Path

import pytest

from offpath import App
from offpath.model.lease import LeaseRequest, WorkerInfo
from tests.cli.conftest import Processes, Run, document, until


def enqueue(run: Run, url: str, *args: str) -> str:
    result = run("enqueue", *args, "--url", url, "--json")
    assert result.exit_code == 0, result.output
    made: str = document(result)["id"]
    return made


def work_off(processes: Processes, url: str, *jobs: tuple[str, ...]) -> list[str]:
    """Run jobs in a real worker; returns what each wait printed."""
    worker = processes.start("worker", "service:app", "--url", url)
    until(worker, "runs add")
    outputs = []
    for job in jobs:
        waiting = processes.start("enqueue", *job, "--url", url, "--wait", "--json")
        outputs.append(waiting.communicate(timeout=30)[0])
    worker.terminate()
    assert worker.wait(timeout=30) == 0
    return outputs


def test_headers_are_kept_and_those_of_secrets_refused(run: Run, migrated: str) -> None:
    add = ("enqueue", "add", "a=1", "b=2", "--url", migrated, "--json", "--header", "tenant=acme")
    job = document(run(*add))["id"]
    shown = document(run("jobs", "show", job, "--url", migrated, "--json"))
    assert shown["headers"] == {"tenant": "acme"}
    refused = run(*add, "--header", "api_key=hunter2")
    assert (refused.exit_code, "hunter2" in refused.output) == (2, False)


def test_an_app_of_the_settings_has_the_task_that_is_enqueued(
    run: Run, migrated: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OFFPATH_APP", "service:app")
    assert run("enqueue", "add", "a=1", "--url", migrated).exit_code == 0, "another store: by name"
    monkeypatch.setenv("OFFPATH_URL", migrated)
    refused = run("enqueue", "add", "a=1")
    assert (refused.exit_code, "invalid_input" in refused.output) == (2, True)
    job = document(run("enqueue", "fail", "--json"))["id"]
    shown = document(run("jobs", "show", job, "--json"))
    assert shown["options"]["retry"]["attempts"] == 1


@pytest.mark.parametrize(
    ("given", "seconds"), [("5m", 300), ("0.5h", 1_800), ("20 s", 20), ("90", 90)]
)
def test_what_asks_for_seconds_takes_a_duration(
    run: Run, migrated: str, given: str, seconds: int
) -> None:
    job = enqueue(run, migrated, "add", "a=1", "b=2", "--deadline", given)
    shown = document(run("jobs", "show", job, "--url", migrated, "--json"))
    made, end = (datetime.fromisoformat(shown[name]) for name in ("enqueued_at", "deadline"))
    assert round((end - made).total_seconds()) == seconds


@pytest.mark.parametrize("given", ["soon", "5 minutes", "1h30m"])
def test_what_is_no_duration_is_told_what_one_is(run: Run, migrated: str, given: str) -> None:
    told = run("enqueue", "add", "--delay", given, "--url", migrated)
    assert told.exit_code == 2
    forms = "is not a duration: 30 (seconds), 500ms, 90s, 5m, 2h or 7d"
    assert forms in " ".join(told.output.split())


@pytest.mark.parametrize("header", ["tenant", "=acme", "Tenant=acme"])
def test_a_header_that_is_none_is_refused(run: Run, migrated: str, header: str) -> None:
    told = run("enqueue", "add", "a=1", "b=2", "--header", header, "--url", migrated)
    assert told.exit_code == 2


def test_jobs_are_listed_shown_cancelled_and_retried(run: Run, migrated: str) -> None:
    first = enqueue(run, migrated, "add", "a=1", "b=2", "--queue", "mail", "--tag", "x")
    second = enqueue(run, migrated, "add", "--input", '{"a": 1, "password": "marker"}')
    url = ("--url", migrated)
    assert first in run("jobs", "list", *url).output
    page = document(run("jobs", "list", "--limit", "1", "--json", *url))
    assert [job["id"] for job in page["items"]] == [second]
    rest = document(run("jobs", "list", "--after", page["next"], "--json", *url))
    assert [job["id"] for job in rest["items"]] == [first]
    assert rest["items"][0]["input"] == {"a": 1, "b": 2}
    shown = run("jobs", "show", second, *url)
    assert (shown.exit_code, "marker" in shown.output) == (0, False)
    changed = document(run("jobs", "cancel", "--queue", "mail", "--yes", "--json", *url))
    assert [(one["id"], one["state"]) for one in changed["changed"]] == [(first, "cancelled")]
    assert run("jobs", "cancel", first, *url).exit_code == 3
    assert run("jobs", "redrive", first, *url).exit_code == 0
    assert document(run("jobs", "show", first, "--json", *url))["state"] == "queued"


def test_a_ref_stands_for_the_id_of_its_job(run: Run, migrated: str) -> None:
    url = ("--url", migrated)
    job = enqueue(run, migrated, "add", "a=1", "b=2", "--ref", "sum-7")
    assert enqueue(run, migrated, "add", "a=1", "b=2", "--ref", "sum-7") == job
    shown = document(run("jobs", "show", "ref:sum-7", "--json", *url))
    assert (shown["id"], shown["tags"]) == (job, ["ref:sum-7"])
    page = document(run("jobs", "list", "--tag", "ref:sum-7", "--json", *url))
    assert [one["id"] for one in page["items"]] == [job]
    assert run("jobs", "cancel", "ref:sum-7", *url).exit_code == 0
    assert document(run("jobs", "show", job, "--json", *url))["state"] == "cancelled"


def test_a_failed_job_is_a_dead_letter(run: Run, migrated: str, processes: Processes) -> None:
    (output,) = work_off(processes, migrated, ("fail",))
    assert '"ok":false' in output
    assert "hunter2" not in output
    url = ("--url", migrated)
    assert run("dead", "list", "--error-type", "Nope", *url).output == "no dead jobs match\n"
    listed = run("dead", "list", *url)
    assert "\\x1b[31mred" in listed.output
    assert "\x1b" not in listed.output
    assert "hunter2" not in listed.output
    (dead,) = document(run("dead", "list", "--json", *url))["items"]
    assert run("dead", "show", dead["id"], *url).exit_code == 0
    assert "hunter2" not in run("dead", "show", dead["id"], "--json", *url).output
    assert run("dead", "redrive", "--all", *url).exit_code == 2
    assert run("dead", "redrive", "--all", "--yes", "--per-second", "2", *url).exit_code == 0
    assert run("dead", "show", dead["id"], *url).exit_code == 3
    again = run("dead", "discard", dead["id"], "--yes", *url)
    assert (again.exit_code, "left alone: its state is queued" in again.output) == (3, True)


def test_waiting_prints_the_result_as_json(migrated: str, processes: Processes) -> None:
    added, kinds = work_off(processes, migrated, ("add", "a=1", "b=2"), ("kinds",))
    assert '"result":3' in added
    assert '"result":{"raw":"YWJj"}' in kinds


def test_waiting_ends_with_its_time(run: Run, migrated: str) -> None:
    result = run("enqueue", "add", "--wait", "--timeout", "0.1", "--json", "--url", migrated)
    answer = document(result)
    assert (result.exit_code, answer["error"]["code"]) == (1, "wait_timeout")
    assert answer["id"] in answer["error"]["message"]


def test_migrating(run: Run, url: str) -> None:
    at = ("--url", url)
    assert run("migrate", "--check", *at).exit_code == 1
    assert "create table" in run("migrate", "--sql", *at).output
    assert run("migrate", *at).exit_code == 0
    assert run("migrate", "--check", *at).exit_code == 0
    assert run("migrate", "--sql", *at).output == "-- nothing is pending\n"
    assert document(run("migrate", "--json", *at)) == {"ok": True, "items": []}


def test_doctor(run: Run, migrated: str) -> None:
    well = run("doctor", "--json", "--url", migrated)
    assert well.exit_code == 0, well.output
    names = {one["name"] for one in document(well)["items"]}
    assert {"schema", "clock", "workers", "takers", "backlog", "rows", "groups"} <= names
    enqueue(run, migrated, "nobody_knows")
    ill = run("doctor", "--url", migrated)
    assert ill.exit_code == 1
    assert "nobody_knows" in ill.output


def test_doctor_without_a_schema(run: Run, url: str, here: Path) -> None:
    result = run("doctor", "--json", "--url", url)
    assert result.exit_code == 1
    assert [one["name"] for one in document(result)["items"]] == ["schema"]
    assert run("jobs", "list", "--url", url).exit_code == 1
    assert not (here / "work.db").exists()


def test_workers_prune_and_settings(run: Run, migrated: str) -> None:
    assert document(run("workers", "--json", "--url", migrated)) == {"ok": True, "items": []}
    pruned = document(run("prune", "--json", "--url", migrated))
    assert pruned == {"ok": True, "removed": 0, "jobs": 0, "messages": 0, "events": 0, "actions": 0}
    shown = document(run("config", "show", "--json", "--url", migrated))
    assert shown["url"]["source"] == "argument"


def test_a_demo_runs_everything(run: Run) -> None:
    tally = document(run("demo", "--json"))
    assert (tally["succeeded"], tally["dead"]) == (300, 1)
    assert tally["retried"] == 41
    assert tally["seconds"] < 10


def test_the_demo_s_advice_works(run: Run) -> None:
    told = run("demo").output
    advice = [line.split()[1:] for line in told.splitlines() if line.startswith("  offpath ")]
    assert len(advice) == 3
    for words in advice:
        assert run(*words).exit_code == 0, words


def test_the_demo_names_a_program_that_the_reader_s_shell_finds(
    run: Run, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = here / "offpath"
    program.touch(mode=0o755)
    monkeypatch.setattr("sys.argv", [str(program)])
    monkeypatch.setenv("PATH", str(here / "nowhere"))
    assert f"\n  {program} dead list --url " in run("demo").output
    monkeypatch.setenv("PATH", str(here))
    assert "\n  offpath dead list --url " in run("demo").output


def test_the_demo_leaves_the_environment_s_database_alone(
    run: Run, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OFFPATH_URL", f"sqlite:///{here / 'mine.db'}")
    monkeypatch.setenv("DATABASE_URL", "postgresql://nobody@localhost:1/none")
    assert run("demo", "--json").exit_code == 0
    assert not (here / "mine.db").exists()


NOWHERE = "postgresql://ada:marker@127.0.0.1:1/none"


@pytest.mark.parametrize(
    ("args", "code", "name"),
    [
        (["jobs", "list"], 2, "configuration"),
        (["jobs", "list", "--state", "sleepy"], 2, "usage"),
        (["jobs", "frobnicate"], 2, "usage"),
        (["jobs", "show", "x", "--url", "sqlite:///new.db"], 1, "schema_missing"),
        (["jobs", "list", "--url", NOWHERE], 4, "store_unavailable"),
        (["enqueue", "add", "a", "--url", "sqlite:///new.db"], 2, "invalid_argument"),
        (["enqueue", "nope", "--app", "service:app", "--url", "sqlite:///n.db"], 3, "unknown_task"),
        (["enqueue", "add", "a=x", "b=1", "--app", "service:app", "--url", "sqlite:///new.db"], 2,
         "invalid_input"),
        (["enqueue", "add", "--app", "service:none", "--url", "sqlite:///n"], 2, "configuration"),
        (["enqueue", "add", "--app", "service:app"], 2, "configuration"),
        (["demo", "--url", "memory://"], 2, "invalid_argument"),
    ],
)  # fmt: skip
def test_errors_have_a_code_and_an_exit_code(
    run: Run, args: list[str], code: int, name: str
) -> None:
    plain = run(*args)
    assert plain.exit_code == code, plain.output
    assert "Traceback" not in plain.output
    assert "marker" not in plain.output
    result = run(*args, "--json")
    assert result.exit_code == code, result.output
    answer = document(result)
    assert (answer["ok"], answer["error"]["code"]) == (False, name)


def test_a_module_that_fails_says_where(run: Run, here: Path) -> None:
    (here / "broken.py").write_text("x = 1\ny = unknown\n", "utf-8")
    result = run("enqueue", "add", "--app", "broken:app", "--url", "sqlite:///x.db")
    assert result.exit_code == 2
    assert "broken.py, line 2" in result.output
    assert (
        "Traceback"
        in run("--debug", "enqueue", "add", "--app", "broken:app", "--url", "sqlite:///x.db").output
    )


def test_examples_in_help_keep_their_lines(run: Run) -> None:
    text = run("jobs", "cancel", "--help").output
    assert "\n  offpath jobs cancel --state queued --task send_mail --yes\n" in text


def test_who_stops_reading_is_told_nothing(
    run: Run, migrated: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")

    monkeypatch.setattr("offpath.cli.output.print_table", broken)
    result = run("jobs", "list", "--url", migrated)
    assert (result.exit_code, result.output) == (1, "")


def test_a_running_job_is_shown_with_what_is_wrong_with_its_worker(run: Run, migrated: str) -> None:
    url = ("--url", migrated)
    job_id = enqueue(run, migrated, "add", "a=1", "b=2")
    blocked = "its event loop has been blocked for 7 s by job x of task y, at f.py:1 in g"
    asyncio.run(_hold(migrated, f'{{"problems":["{blocked}"]}}'))
    assert f"worker says  {blocked}" in run("jobs", "show", job_id, *url).output
    shown = document(run("jobs", "show", job_id, "--json", *url))
    assert shown["worker_problems"] == [blocked]


async def _hold(url: str, report: str) -> None:
    """Take what is due into the hand of a worker that says this of itself."""
    info = WorkerInfo(id="w", host="h", pid=1, version="0", concurrency=1, tasks=("add",))
    async with App(url) as app:
        store = app.store()
        await store.extend(info, lease_seconds=600, held=(), report=report)
        leased = await store.lease(LeaseRequest(worker="w", limit=1, tasks={"add": 1}))
        assert len(leased.jobs) == 1
