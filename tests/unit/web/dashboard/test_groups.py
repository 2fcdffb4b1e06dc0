"""The list of groups: open ones first, then what has ended, page by page."""

from __future__ import annotations

from typing import Any

import offpath
from tests.unit.web.dashboard.rig import Site, site_of


async def _five() -> tuple[offpath.App, list[str]]:
    """Five groups, of which the second and the fourth are open."""
    app = offpath.App("memory://", auto_start=False)

    @app.task
    async def part() -> None: ...

    @app.task
    async def whole(ctx: offpath.Context, later: float) -> offpath.Plan[Any, Any]:
        return ctx.queue(part.options(delay=later).job())

    await app.open()
    made = [await whole.enqueue(3_600.0 if number % 2 else 0.0) for number in range(5)]
    async with app.worker():
        for number, one in enumerate(made):
            wait = one.result if number % 2 else one.group
            await wait(timeout=50)
    return app, [one.id for one in made]


async def _ids(site: Site, query: str) -> tuple[list[str], str | None]:
    found = (await site.get(f"/api/v1/groups?{query}")).document
    return [one["id"] for one in found["items"]], found["next"]


async def test_open_groups_come_first_then_the_newest() -> None:
    app, made = await _five()
    expected = [made[3], made[1], made[4], made[2], made[0]]
    try:
        site = site_of(app)
        assert await _ids(site, "") == (expected, None)
        assert (await _ids(site, "state=open"))[0] == [made[3], made[1]]
        assert (await _ids(site, "state=ended"))[0] == [made[4], made[2], made[0]]
        assert (await site.get("/api/v1/groups?state=shut")).code == 400
        for size in (1, 2, 3, 4):
            seen, after = await _ids(site, f"limit={size}")
            while after is not None:
                more, after = await _ids(site, f"limit={size}&after={after}")
                seen += more
            assert seen == expected, size
    finally:
        await app.close()
