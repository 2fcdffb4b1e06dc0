"""Searches of jobs by a text, in what their reader may see and in nothing else.

The store matches whole arguments and error texts, secrets too. If such a match were told, each
search would say whether a guess is right. So an answer is made of the visible matches alone: its
rows, and how far it came.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

import msgspec

from offpath.app import App
from offpath.model.brief import BriefPage, JobBrief
from offpath.model.job import JobFilter, JobRecord
from offpath.model.redact import redact_text
from offpath.operating.redaction import Redaction, decoded
from offpath.runtime.ids import new_id

_TURNS: Final = 10
"""Pages of matches that are looked through for visible ones."""
_AT_ONCE: Final = 20
"""Jobs whose arguments are read at once: each may have a mebibyte of them."""


async def search(
    app: App,
    where: JobFilter,
    text: str,
    seen: Redaction,
    *,
    limit: int,
    after: str | None,
    newest: bool,
) -> BriefPage:
    """A page of the jobs in whose shown arguments or error texts there is this text."""
    look = partial(app.store().browse, where, newest=newest)
    find = partial(look, text=text, arguments=seen.payloads, limit=limit)
    found: list[JobBrief] = []
    end: BriefPage | None = None
    place = after
    for _ in range(_TURNS):
        page = await find(after=place)
        found += await _visible(app, page.items, text, seen)
        if len(found) > limit:
            break
        # where a look ends that matches nothing: what is hidden must not move it
        end = end or await look(text=new_id(), limit=1, after=after)
        place = page.next
        if place in {None, end.reached} or _before(end.reached, place, newest=newest):
            break
    if end is None or len(found) > limit:
        last = found[limit - 1]
        return BriefPage(
            items=tuple(found[:limit]), next=last.id, reached=last.id, reached_at=last.enqueued_at
        )
    items = (one for one in found if not _before(end.reached, one.id, newest=newest))
    return msgspec.structs.replace(end, items=tuple(items))


def _before(one: str | None, other: str | None, *, newest: bool) -> bool:
    """True if both are rows, and the first comes before the second in this order."""
    if one is None or other is None:
        return False
    return one > other if newest else one < other


async def _visible(
    app: App, items: Sequence[JobBrief], text: str, seen: Redaction
) -> list[JobBrief]:
    """The jobs that show the text to this reader."""
    unsure = [one.id for one in items if text not in redact_text(one.error or "")]
    shown = set()
    for start in range(0, len(unsure), _AT_ONCE):
        ids = tuple(unsure[start : start + _AT_ONCE])
        page = await app.store().find(JobFilter(ids=ids), limit=_AT_ONCE)
        shown |= {one.id for one in page.items if _shows(one, text, seen)}
    return [one for one in items if one.id not in unsure or one.id in shown]


def _shows(job: JobRecord, text: str, seen: Redaction) -> bool:
    if job.failures and text in redact_text(job.failures[-1].message):
        return True
    return seen.payloads and text in _arguments(job, seen)


def _arguments(job: JobRecord, seen: Redaction) -> str:
    """The arguments as their reader sees them: the stored text, where nothing of it is hidden."""
    shown = seen.arguments(job.task, job.input)
    if shown == decoded(job.input):
        return job.input
    return msgspec.json.encode(shown).decode()
