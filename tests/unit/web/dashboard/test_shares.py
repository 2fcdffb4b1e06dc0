"""Answers that several viewers share: made once, given again for a second, each by its own name."""

from __future__ import annotations

import asyncio

import pytest

import offpath
from offpath.web import auth, dashboard
from offpath.web.console import shares
from offpath.web.console.renderer import Pages
from offpath.web.console.shares import SharedAnswers
from offpath.web.viewers import VIEWER
from tests.unit.web.dashboard.rig import Site

ANN, BEN = "the token of ann, long enough", "the token of ben, long enough"


class Maker:
    """Makes an answer when it is let."""

    def __init__(self) -> None:
        self.made = 0
        self.go = asyncio.Event()

    async def __call__(self) -> int:
        self.made += 1
        number = self.made
        await self.go.wait()
        return number


async def test_who_comes_while_an_answer_is_made_waits_for_that_one() -> None:
    answers, make = SharedAnswers(), Maker()
    waiting = [asyncio.ensure_future(answers.get("a", make)) for _ in range(3)]
    await asyncio.sleep(0)
    waiting[0].cancel()  # who leaves takes it away from nobody
    make.go.set()
    assert await asyncio.gather(*waiting[1:]) == [1, 1]
    assert [await answers.get("a", make), await answers.get("b", make)] == [1, 2]


async def test_an_answer_is_given_again_for_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(shares, "monotonic", lambda: now)
    answers, make = SharedAnswers(), Maker()
    make.go.set()
    assert await answers.get("a", make) == 1
    now += 0.9
    assert await answers.get("a", make) == 1
    now += 0.2
    assert await answers.get("a", make) == 2


@pytest.mark.parametrize(("took", "kept"), [(0.1, 2.0), (1.5, 5.0)])
async def test_an_answer_that_cost_more_is_given_again_for_longer(
    monkeypatch: pytest.MonkeyPatch, took: float, kept: float
) -> None:
    now, made = 100.0, 0

    async def make() -> int:
        nonlocal now, made
        now += took
        made += 1
        return made

    monkeypatch.setattr(shares, "monotonic", lambda: now)
    answers = SharedAnswers()
    assert await answers.get("a", make) == 1
    now = 100.0 + kept - 0.01
    assert await answers.get("a", make) == 1
    now = 100.0 + kept + 0.01
    assert await answers.get("a", make) == 1, "nobody waits while it is made anew"
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert (made, await answers.get("a", make)) == (2, 2)
    now += 2 * kept + 0.01
    assert await answers.get("a", make) == 3, "a last answer that is too old is given to nobody"


async def test_what_is_made_before_a_change_is_given_to_nobody_who_comes_after() -> None:
    answers, make = SharedAnswers(), Maker()
    early = asyncio.ensure_future(answers.get("a", make))
    await asyncio.sleep(0)
    answers.forget()
    late = asyncio.ensure_future(answers.get("a", make))
    await asyncio.sleep(0)
    make.go.set()
    assert list(await asyncio.gather(early, late)) == [1, 2]
    assert await answers.get("a", make) == 2


async def test_a_fault_is_told_to_all_who_wait_and_is_not_kept() -> None:
    answers = SharedAnswers()

    async def fail() -> int:
        await asyncio.sleep(0)
        raise ValueError

    both = await asyncio.gather(*(answers.get("a", fail) for _ in range(2)), return_exceptions=True)
    assert [type(one) for one in both] == [ValueError, ValueError]
    make = Maker()
    make.go.set()
    assert await answers.get("a", make) == 1


async def test_twenty_viewers_cost_one_page_and_each_sees_its_own_name(
    app: offpath.App, monkeypatch: pytest.MonkeyPatch
) -> None:
    rendered = []
    render = Pages.render

    def counting(self: Pages, template: str, **values: object) -> str:
        rendered.append(template)
        return render(self, template, **values)

    monkeypatch.setattr(Pages, "render", counting)
    monkeypatch.setattr(shares, "FOR", 60.0)
    site = Site(dashboard(app, auth=auth.token({"<ann>": ANN, "ben": BEN})))
    asked = [site.get("/jobs", {"authorization": f"Bearer {one}"}) for one in (ANN, BEN) * 10]
    answers = await asyncio.gather(*asked)
    assert rendered == ["jobs.html"]
    assert "<span>&lt;ann&gt;</span>" in answers[0].text
    assert "<span>ben</span>" in answers[1].text
    assert len({one.headers["etag"] for one in answers}) == 2


async def test_who_may_less_shares_nothing_with_who_may_more(
    app: offpath.App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shares, "FOR", 60.0)
    known = {ANN: auth.Viewer("ann", auth.OPERATOR), BEN: auth.Viewer("ben", VIEWER)}
    site = Site(dashboard(app, auth=lambda asked: known.get(asked.headers["authorization"])))
    (dead,) = (await app.dead.list(limit=1)).items
    seen = [await site.get(f"/jobs/{dead.id}", {"authorization": one}) for one in (ANN, BEN)]
    assert ["Traceback (most recent" in one.text for one in seen] == [True, False]
    assert ["verb" in one.text for one in seen] == [True, False]
