"""The list of jobs: times as filters, orders, counts by state, and how long each took."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qs, quote, urlencode

import pytest

import offpath
from offpath.errors import InvalidArgument
from offpath.model.brief import JobBrief
from offpath.model.job import JobState
from offpath.operating import overview
from offpath.operating.documents.lists import describe_brief
from offpath.web.console.queries import JOB_NAMES, RequestQuery, field_text, moment, searched
from tests.integration.polling import eventually
from tests.unit.web.dashboard.rig import BEARER, Site, site_of

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("15m", NOW - timedelta(minutes=15)),
        ("7d", NOW - timedelta(days=7)),
        ("2026-11-30T08:00", NOW - timedelta(hours=4)),
        ("2026-11-30T08:00+01:00", NOW - timedelta(hours=5)),
    ],
)
def test_a_time_is_a_moment_or_a_span_ago(text: str, expected: datetime) -> None:
    assert moment(text, "enqueued_after", NOW) == expected


@pytest.mark.parametrize("text", ["yesterday", "m", "-5m", "٣m", "1.5h", "2026-13-01", "5w"])
def test_what_is_no_time_is_refused_by_its_name(text: str) -> None:
    with pytest.raises(InvalidArgument, match="enqueued_after is a time"):
        moment(text, "enqueued_after", NOW)


def test_an_action_is_about_what_was_seen_however_long_it_takes_to_confirm() -> None:
    query = RequestQuery("task=add&enqueued_before=15m&sort=oldest&after=x&limit=9", JOB_NAMES)
    later = parse_qs(query.matching(NOW, state="dead"))
    assert later == {
        "task": ["add"],
        "enqueued_before": ["2026-11-30T11:45:00+00:00"],
        "state": ["dead"],
    }


def test_the_search_field_says_what_it_was_given() -> None:
    text = "state:dead error:Boom after:15m before:2026-12-01T08:00 parent:x"
    path, query = searched(text)
    assert path == "/jobs"
    pairs = RequestQuery(query, JOB_NAMES).pairs
    assert dict(pairs)["enqueued_after"] == "15m"
    assert field_text(pairs) == text


async def test_jobs_are_chosen_by_when_they_were_enqueued_and_ended(
    app: offpath.App, site: Site
) -> None:
    items = (await site.get("/api/v1/jobs?limit=200")).document["items"]
    middle = sorted(one["enqueued_at"] for one in items)[len(items) // 2]
    for name in ("enqueued_after", "enqueued_before"):
        found = (await site.get(f"/api/v1/jobs?limit=200&{name}={quote(middle)}")).document["items"]
        kept = [one for one in items if (one["enqueued_at"] >= middle) is (name[-5:] == "after")]
        assert [one["id"] for one in found] == [one["id"] for one in kept], name
    assert (await site.get("/api/v1/jobs?finished_before=1d")).document["items"] == []
    assert (await site.get("/api/v1/jobs?enqueued_after=soon")).code == 400
    assert (await site.get("/api/v1/jobs?sort=best")).code == 400


async def test_the_oldest_come_first_when_that_is_asked_for(site: Site) -> None:
    newest = (await site.get("/api/v1/jobs?limit=200")).document["items"]
    oldest = (await site.get("/api/v1/jobs?limit=200&sort=oldest")).document["items"]
    assert oldest == newest[::-1]
    page = (await site.get("/jobs?limit=5&sort=oldest")).text
    assert ">Newer</a>" in page
    assert ">Older</a>" not in page


async def test_each_state_says_how_many_there_are(app: offpath.App, site: Site) -> None:
    told = (await site.get("/api/v1/counts")).document
    counts = {one["state"]: one["jobs"] for one in told["items"]}
    for state, jobs in counts.items():
        assert jobs == len((await app.jobs.find(state=state, limit=200)).items), state
    dead = (await app.dead.list(limit=200)).items
    oldest = min(one.finished_at for one in dead if one.finished_at)
    assert datetime.fromisoformat(told["oldest_dead_at"]) == oldest
    assert f'dead<span class="count">{len(dead)}</span>' in (await site.get("/jobs")).text
    # of one task they would be another's
    assert 'class="count"' not in (await site.get("/jobs?task=add")).text
    assert "the oldest died" in (await site.get("/dead")).text


def brief(**fields: object) -> JobBrief:
    """A job that became due at noon."""
    given: dict[str, object] = {
        "id": "j",
        "task": "t",
        "queue": "q",
        "state": JobState.SUCCEEDED,
        "priority": 0,
        "run_at": NOW,
        "enqueued_at": NOW,
        "attempt": 1,
        "deliveries": 1,
        "group_id": "j",
    }
    return JobBrief(**{**given, **fields})  # type: ignore[arg-type]


def test_a_job_tells_how_long_it_waited_and_ran() -> None:
    start, end = NOW + timedelta(seconds=3), NOW + timedelta(seconds=10)
    done = describe_brief(brief(started_at=start, finished_at=end))
    assert (done.waited, done.ran, done.ran_at_most) == (3.0, 7.0, True)
    told = describe_brief(
        brief(started_at=start, finished_at=end, state=JobState.DEAD, ran=timedelta(seconds=2))
    )
    assert (told.ran, told.ran_at_most) == (2.0, False)
    running = describe_brief(brief(state=JobState.RUNNING, started_at=start))
    assert (running.waited, running.ran) == (3.0, None)


def test_the_wait_for_a_next_attempt_is_none_of_the_last_ones() -> None:
    start = NOW - timedelta(seconds=60)
    waiting = describe_brief(brief(state=JobState.QUEUED, started_at=start))
    assert (waiting.waited, waiting.ran) == (None, None)
    cancelled = describe_brief(brief(started_at=start, finished_at=NOW + timedelta(seconds=9)))
    assert (cancelled.waited, cancelled.ran) == (None, None)


async def test_a_fault_is_redriven_alone(app: offpath.App) -> None:
    """Two causes of one type are two faults: the button of one leaves the other's jobs alone."""
    flaky = app.task(name="flaky", retry=1)(_raise)
    jobs = await app.enqueue([flaky.job(text) for text in ("no route", "no route", "bad gate")])
    async with app.worker():
        for one in jobs:
            with pytest.raises(offpath.JobEnded):
                await one.result(timeout=50)
    site = site_of(app)
    faults = (await site.get("/api/v1/faults")).document["items"]
    (fault,) = [one for one in faults if one["text"] == "no route"]
    match = {"task": "flaky", "reason": "exhausted", "fault": fault["key"]}
    listed = (await site.get(f"/api/v1/dead?{urlencode(match)}")).document["items"]
    assert {one["id"] for one in listed} == {jobs[0].id, jobs[1].id}
    page = (await site.get("/dead")).text
    assert "fault%3DRuntimeError%253A%2Bno%2Broute" in page
    body = urlencode({"verb": "job.redrive", "match": urlencode({"state": "dead", **match})})
    sent = await site.ask(
        "POST",
        "/act",
        headers={**BEARER, "content-type": "application/x-www-form-urlencoded"},
        body=body.encode(),
    )
    assert sent.code == 303
    states = await app.store().states([one.id for one in jobs])
    assert [states[one.id] for one in jobs] == [JobState.QUEUED, JobState.QUEUED, JobState.DEAD]


async def _raise(text: str) -> None:
    raise RuntimeError(text)


async def test_a_job_that_no_worker_has_had_is_in_no_attempt(site: Site) -> None:
    waiting = (await site.get("/jobs?task=export&state=queued")).text
    assert waiting.count('title="No worker has had it"') == waiting.count('<tr id="job-') > 0
    assert "No worker has had it" not in (await site.get("/jobs?task=send_mail&state=dead")).text


async def test_a_list_tells_how_many_attempts_a_job_has(app: offpath.App, site: Site) -> None:
    await app.tasks["export"].options(retry=7).enqueue(month="2026-12")
    told = {
        (one["task"], one["most_attempts"])
        for one in (await site.get("/api/v1/jobs?limit=200")).document["items"]
    }
    assert {("send_mail", 1), ("export", 7), ("add", 3)} <= told
    dead = (await site.get("/jobs?task=send_mail&state=dead")).text
    assert '<td data-name="Attempt" class="right">1 of 1</td>' in dead
    # the attempt that failed told its length itself; of one that did well the end was stored later
    assert "Until its end was stored" not in dead
    assert 'title="Until its end was stored">≤' in (await site.get("/jobs?state=succeeded")).text


async def test_the_overview_tells_faults_of_the_last_hour_and_how_many_are_dead(
    app: offpath.App, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = (await site_of(app).get("/api/v1/overview")).document
    assert (told["dead"], told["more_dead"], told["faults"]["looked_at"]) == (6, False, 6)
    page = (await site_of(app).get("/")).text
    assert "Faults of the last hour" in page
    assert "/dead?finished_after=1h&amp;task=send_mail" in page
    monkeypatch.setattr(overview, "LATELY", -timedelta(minutes=1))
    told = (await site_of(app).get("/api/v1/overview")).document
    assert (told["dead"], told["faults"]["items"]) == (6, [])
    assert "No job died in the last hour. 6 died before." in (await site_of(app).get("/")).text


async def test_a_schedule_whose_last_job_died_comes_first(app: offpath.App, site: Site) -> None:
    job = app.tasks["send_mail"].job(to="ann", password="x")
    await app.schedules.create("late", job, every=1.0)

    async def last() -> str | None:
        return (await app.schedules.get("late")).last_job

    async with app.worker(queues=("nothing",)):
        await eventually(last, within=50)
    await app.schedules.change("late", every=10 * 86_400.0)
    wanted = await last()
    assert wanted is not None

    async def died() -> bool:
        return (await app.jobs.get(wanted)).state is JobState.DEAD

    async with app.worker():
        await eventually(died, within=50)
    told = (await site.get("/api/v1/overview")).document["schedules"]
    assert [one["name"] for one in told] == ["late", "poll", "nightly"]
    assert told[0]["last_state"] == "dead"
    assert "what failed last comes first" in (await site.get("/")).text


async def test_a_schedule_tells_how_its_last_job_went(app: offpath.App, site: Site) -> None:
    await app.schedules.create("broken", app.tasks["thumbnail"].job(path="x"), every=1.0)

    async def last() -> str | None:
        return (await app.schedules.get("broken")).last_job

    async with app.worker(queues=("nothing",)):
        await eventually(last, within=30)
    for path in ("schedules", "overview"):
        told = (await site.get(f"/api/v1/{path}")).document
        listed = told["items"] if path == "schedules" else told["schedules"]
        found = {one["name"]: one["last_state"] for one in listed}
        assert found == {"broken": "queued", "nightly": None, "poll": None}, path
    for path in ("/schedules", "/"):
        page = (await site.get(path)).text
        row = page[page.index('href="/schedules/broken"') :].partition("</tr>")[0]
        assert 'href="/jobs/' in row
        assert "queued" in row
    await app.schedules.pause("broken")
    coming = (await site_of(app).get("/api/v1/overview")).document["schedules"]
    assert {one["name"] for one in coming} == {"nightly", "poll"}
