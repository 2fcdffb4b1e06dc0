"""A job tells who did what to it, and why."""

from __future__ import annotations

import offpath
from tests.unit.web.dashboard.rig import BEARER, Site
from tests.unit.web.dashboard.test_acting import dead_ids, post


async def test_a_job_tells_of_the_actions_that_named_it(app: offpath.App, site: Site) -> None:
    one, other, *_ = await dead_ids(app)
    assert (await site.get(f"/api/v1/jobs/{one}")).document["history"] == []
    asked = {"verb": "job.redrive", "target": {"ids": [one]}, "note": "provider was up again"}
    await post(site, asked)
    await post(site, {"verb": "job.delete", "target": {"ids": [other]}})
    (told,) = (await site.get(f"/api/v1/jobs/{one}")).document["history"]
    assert (told["verb"], told["actor"], told["note"], told["via"]) == (
        "job.redrive",
        "ann",
        "provider was up again",
        "api",
    )
    page = (await site.get(f"/jobs/{one}", headers={**BEARER, "accept": "text/html"})).text
    assert "provider was up again" in page
    assert f"/actions/{told['id']}" in page
