"""Pages of dead letters: they go on behind a position, and lose none of an event's letters."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from offpath.model.route import Letter, LogEvent
from offpath.operating.documents.routers import describe_letters

AT = datetime(2026, 11, 30, tzinfo=UTC)


def letter(number: int, position: int) -> Letter:
    """A letter of an event at a position."""
    event = LogEvent(
        id=f"e{position}", domain="iu", type="paid", stream="s", payload="{}", position=position,
        at=AT, key=None,
    )  # fmt: skip
    return Letter(
        id=f"l{number}", router="iu", route=f"r{number}", event=event, reason="error", detail="",
        number=1, created_at=AT,
    )  # fmt: skip


def pages(letters: Sequence[Letter], limit: int) -> list[str]:
    """The ids of all pages, one after the other."""
    found, after = list[str](), -1
    for _ in range(len(letters) + 1):
        rest = [one for one in letters if one.event.position > after][: limit + 1]
        page = describe_letters(rest, limit)
        found += [one.id for one in page.items]
        if page.next is None:
            break
        after = int(page.next)
    return found


@given(st.lists(st.integers(1, 3), max_size=8), st.integers(3, 5))
def test_no_letter_is_left_out_between_two_pages(each: list[int], limit: int) -> None:
    """An event has up to three letters, one for each route."""
    places = [place for place, many in enumerate(each) for _ in range(many)]
    letters = [letter(number, place) for number, place in enumerate(places)]
    assert pages(letters, limit) == [one.id for one in letters]
