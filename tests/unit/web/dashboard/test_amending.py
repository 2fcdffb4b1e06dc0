"""Changing jobs that wait: the form, what it refuses, and what it says afterwards."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qs, urlsplit

import pytest

import offpath
from offpath.model.action import ActionFilter
from tests.unit.web.dashboard.rig import Site
from tests.unit.web.dashboard.test_acting import kept, post, submit


async def waiting(app: offpath.App) -> str:
    return (await app.jobs.find(task="export")).items[0].id


async def test_the_form_has_a_field_for_each_term(app: offpath.App, site: Site) -> None:
    job_id = await waiting(app)
    page = await site.get(f"/act?verb=job.amend&id={job_id}&back=/jobs/{job_id}")
    assert page.code == 200
    for name in ("priority", "queue", "run_at", "deadline"):
        assert f'name="o.{name}"' in page.text


async def test_a_job_is_changed_and_the_page_says_so(app: offpath.App, site: Site) -> None:
    job_id = await waiting(app)
    before = await app.jobs.get(job_id)
    answer = await submit(
        site,
        verb="job.amend",
        id=job_id,
        back=f"/jobs/{job_id}",
        o_dot_priority="-4",
        o_dot_queue="slow",
        o_dot_run_at="2099-01-02T03:04",
        o_dot_deadline="",
        note="make room",
    )
    assert answer.code == 303
    after = await app.jobs.get(job_id)
    assert (after.priority, after.queue) == (-4, "slow")
    assert after.run_at == datetime(2099, 1, 2, 3, 4, tzinfo=UTC)
    assert after.deadline == before.deadline
    where = urlsplit(answer.headers["location"])
    assert parse_qs(where.query)["done"]
    page = await site.get(f"{where.path}?{where.query}")
    assert "1 changed" in page.text
    (kept_,) = await app.store().actions(ActionFilter())
    assert (kept_.verb, kept_.note, kept_.changed) == ("job.amend", "make room", 1)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({}, "give one of priority"),
        ({"o_dot_priority": "high"}, "do not fit"),
        ({"o_dot_run_at": "soon"}, "a time in UTC"),
        ({"o_dot_deadline": "2001-01-01T00:00"}, "must be later than now"),
        (
            {"o_dot_run_at": "2099-01-02T00:00", "o_dot_deadline": "2099-01-01T00:00"},
            "must be later than run_at",
        ),
        ({"o_dot_queue": "a\x07b"}, "unprintable"),
        ({"o_dot_priority": str(2**31)}, "between"),
    ],
)
async def test_what_makes_no_sense_is_asked_again_with_what_was_given(
    app: offpath.App, site: Site, fields: dict[str, str], said: str
) -> None:
    job_id = await waiting(app)
    before = await app.jobs.get(job_id)
    answer = await submit(site, verb="job.amend", id=job_id, back="/jobs", **fields, note="why")
    assert answer.code == 400
    assert said in answer.text
    assert 'name="o.deadline"' in answer.text
    assert 'value="why"' in answer.text
    assert await app.jobs.get(job_id) == before
    assert await kept(app) == []


async def test_a_program_changes_all_that_match(app: offpath.App, site: Site) -> None:
    target = {"where": {"task": ["export"]}}
    asked = {"verb": "job.amend", "target": target, "options": {"priority": 9}}
    preview = (await post(site, asked, "/api/v1/actions/preview")).document
    found = (await app.jobs.find(task="export")).items
    assert preview["matching"] == len(found)
    assert (await post(site, asked)).code in {200, 202}
    refused = await post(site, {**asked, "options": {}})
    assert (refused.code, refused.document["code"]) == (400, "INVALID_ARGUMENT")


@pytest.mark.parametrize(
    ("link", "field"),
    [
        ("verb=finding.accept&id=x&back=/health", "o.reason"),
        ("verb=letter.resolve&router=r&id=x&back=/routers/r", "o.resolution"),
    ],
)
async def test_a_verb_that_needs_a_word_asks_for_it(site: Site, link: str, field: str) -> None:
    page = await site.get(f"/act?{link}")
    assert page.code == 200
    assert f'name="{field}"' in page.text


async def test_the_app_refuses_what_it_cannot_mean(app: offpath.App) -> None:
    job_id = await waiting(app)
    now = await app.store().ping()
    with pytest.raises(offpath.errors.InvalidArgument, match="give one of set_priority"):
        await app.jobs.amend(job_id)
    with pytest.raises(offpath.errors.InvalidArgument, match="set_deadline must be later"):
        await app.jobs.amend(job_id, set_deadline=now)
    with pytest.raises(offpath.errors.InvalidArgument, match="time zone"):
        await app.jobs.amend(job_id, set_run_at=datetime(2099, 1, 1))  # noqa: DTZ001
    with pytest.raises(offpath.errors.InvalidArgument, match="nothing is chosen"):
        await app.jobs.amend(set_priority=1)
    (changed,) = await app.jobs.amend(job_id, set_deadline=now + timedelta(days=9_999))
    assert changed.id == job_id
