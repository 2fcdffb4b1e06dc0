"""Downloads: what is longer than a page shows is a file, for whoever may see payloads."""

from __future__ import annotations

import pytest

import offpath
from tests.browser.scene import SECRET
from tests.unit.web.dashboard.rig import Site, site_for_lookers, site_of

LONG = "x" * 1_000_000


async def _long(app: offpath.App) -> str:
    handle = await app.tasks["send_mail"].options(delay=60).enqueue(to=LONG, password=SECRET)
    return str(handle.id)


async def test_a_long_argument_is_cut_on_the_page_and_whole_in_its_file(app: offpath.App) -> None:
    job, site = await _long(app), site_of(app)
    page = (await site.get(f"/jobs/{job}")).text
    assert f'href="/api/v1/jobs/{job}?download=input" download' in page
    assert len(page) < 200_000
    file = await site.get(f"/api/v1/jobs/{job}?download=input")
    assert file.document == {"to": LONG, "password": "***"}
    assert file.headers["content-type"] == "application/json"
    assert file.headers["content-disposition"] == f'attachment; filename="job-{job}-input.json"'


async def test_a_short_argument_has_no_file_to_load(app: offpath.App) -> None:
    job = (await app.enqueue([app.tasks["add"].job(1, b=2)]))[0]
    assert "?download=" not in (await site_of(app).get(f"/jobs/{job.id}")).text


async def test_who_may_not_see_payloads_downloads_none(app: offpath.App) -> None:
    job, site = await _long(app), site_for_lookers(app)
    answer = await site.get(f"/api/v1/jobs/{job}?download=input")
    assert (answer.code, answer.document["code"]) == (403, "RIGHT.MISSING")
    assert "?download=" not in (await site.get(f"/jobs/{job}")).text
    hidden = site_of(app, payloads="hidden")
    assert (await hidden.get(f"/api/v1/jobs/{job}?download=input")).code == 403


@pytest.mark.parametrize("path", ["messages", "events"])
async def test_what_a_message_or_an_event_carries_is_a_file_too(site: Site, path: str) -> None:
    one = (await site.get(f"/api/v1/{path}")).document["items"][-1]["id"]
    file = await site.get(f"/api/v1/{path}/{one}?download=payload")
    assert file.document["order"] in {7, 8}
    assert SECRET not in file.text
    assert file.headers["content-disposition"].endswith(f'{one}-payload.json"')


async def test_a_part_that_there_is_not_is_refused(app: offpath.App) -> None:
    job, site = await _long(app), site_of(app)
    assert (await site.get(f"/api/v1/jobs/{job}?download=result")).code == 404
    refused = await site.get(f"/api/v1/jobs/{job}?download=options")
    assert refused.code == 400
    assert "input, result, progress" in refused.text
    assert (await site.get("/api/v1/queues?download=items")).code == 400
