"""Trims of the ledger in memory: archived postings go, and where each chain goes on stays."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from operator import attrgetter
from typing import Final

from msgspec.structs import replace

from offpath.model.ledger.posting import LinkRecord, PostingRecord
from offpath.model.ledger.trims import WHOLE, Retired, Trim
from offpath.store.memory.ledger_reads import standing
from offpath.store.memory.ledger_rows import Ledger

_SEQ: Final = attrgetter("seq")


def keep(ledger: Ledger, trim: int, ids: Sequence[str]) -> None:
    """Keep these postings whole."""
    if trim <= len(ledger.trims):
        return  # what it keeps is signed
    ledger.about_to_change()
    for name in ids:
        known = ledger.postings.get(name)
        if known is not None and name not in ledger.retired:
            ledger.retired[name] = Retired(id=name, trim=trim, file="", posting=known)


def begin(ledger: Ledger, trim: Trim, keeps: int) -> bool:
    """Write a trim unless it does not follow the last one, or more is kept for it."""
    last = ledger.trims[-1] if ledger.trims else None
    number, before = (0, 0) if last is None else (last.number, last.posting)
    if (
        trim.number != number + 1
        or trim.posting <= before
        or (last is not None and not last.finished)
        or not any(
            (one.id, one.posting) == (trim.checkpoint, trim.posting) for one in ledger.checkpoints
        )
        or keeps != _kept(ledger, trim.number)
    ):
        return False
    ledger.about_to_change()
    ledger.trims.append(replace(trim, done=0, postings=0, links=0, moved=None))
    return True


def _kept(ledger: Ledger, trim: int) -> int:
    return sum(one.trim == trim and one.posting is not None for one in ledger.retired.values())


def step(ledger: Ledger, limit: int, now: int) -> int:
    """Look at the next postings of the trim that is under way."""
    if not ledger.trims or ledger.trims[-1].finished:
        return 0
    ledger.about_to_change()
    trim = ledger.trims[-1]
    first = bisect_right(ledger.order, trim.done, key=_SEQ)
    last = bisect_right(ledger.order, trim.posting, key=_SEQ)
    looked = ledger.order[first : min(last, first + limit)]
    gone = _Gone(ledger, trim)
    for posting in looked:
        gone.take(posting)
    gone.apply()
    done = trim.posting if first + limit >= last else looked[-1].seq
    ledger.trims[-1] = replace(
        trim,
        done=done,
        postings=trim.postings + len(gone.postings),
        links=trim.links + len(gone.links),
        moved=now,
    )
    return len(looked)


class _Gone:
    """The links and postings that a step removes."""

    def __init__(self, ledger: Ledger, trim: Trim) -> None:
        self._ledger = ledger
        self._trim = trim
        self._last: dict[str, int] = {}
        self._left: dict[str, PostingRecord] = {}
        self.links: set[tuple[str, int]] = set()
        self.postings: set[str] = set()

    def take(self, posting: PostingRecord) -> None:
        """The next posting."""
        if all(link.account == WHOLE for link in posting.links):
            return
        trim = self._trim
        gone = Retired(id=posting.id, trim=trim.number, file=trim.file)
        # A posting that is kept whole has its row already.
        self._ledger.retired.setdefault(posting.id, gone)
        left = tuple(one for one in posting.links if self._stays(one))
        self.links |= {(one.account, one.number) for one in posting.links if one not in left}
        if left:
            self._left[posting.id] = replace(posting, links=left)
        else:
            self.postings.add(posting.id)

    def apply(self) -> None:
        """Remove them. Views share the lists as they were: what changes is made anew."""
        ledger = self._ledger
        accounts = {account for account, _ in self.links}
        ledger.links = dict(ledger.links)
        for name in accounts:
            links = ledger.links[name]
            ledger.links[name] = [one for one in links if (name, one.number) not in self.links]
        ledger.postings = {
            name: self._left.get(name, one)
            for name, one in ledger.postings.items()
            if name not in self.postings
        }
        ledger.order = [
            self._left.get(one.id, one) for one in ledger.order if one.id not in self.postings
        ]

    def _stays(self, link: LinkRecord) -> bool:
        """True for the last one of its account up to the boundary."""
        if link.account not in self._last:
            last = standing(self._ledger, link.account, self._trim.posting)
            self._last[link.account] = 0 if last is None else last.number
        return link.account == WHOLE or link.number >= self._last[link.account]
