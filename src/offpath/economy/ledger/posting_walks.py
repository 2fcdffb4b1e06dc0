"""Chains that are walked posting by posting: what is wrong with them, and where each came to."""

from __future__ import annotations

from collections.abc import Iterable

from offpath.economy.ledger.chains import MOST_BREAKS, Break, ChainWalk
from offpath.model.ledger.faults import LedgerError
from offpath.model.ledger.posting import PostingRecord, verified


class PostingWalks:
    """The chains of the accounts that postings name, from those that were ``begun`` on.

    ``believed``: an account that was not begun goes on from its first link here, and what is before
    that link is believed. Without it such a link must be the account's first one.
    """

    def __init__(self, begun: Iterable[ChainWalk] = (), *, believed: bool) -> None:
        self.walks = {one.account: one for one in begun}
        self.broken: dict[str, Break] = {}
        """The first break of each account."""
        self.postings = 0
        self._wrong: list[str] = []
        self._believed = believed

    @property
    def breaks(self) -> tuple[Break, ...]:
        """The accounts whose chain does not hold; at most 100."""
        return tuple(self.broken.values())[:MOST_BREAKS]

    @property
    def wrong(self) -> tuple[str, ...]:
        """The postings that do not balance, or do not hash to their links; at most 100."""
        return tuple(self._wrong)

    def take(self, posting: PostingRecord) -> None:
        """The next posting, in the order of the commits."""
        self.postings += 1
        try:
            verified(posting)
        # An account that no chart knows is a finding as well: the proof goes on to the others.
        except (LedgerError, ValueError) as error:
            self._wrong += [str(error)][: MOST_BREAKS - len(self._wrong)]
        for link in posting.links:
            walk = self.walks.get(link.account)
            if walk is None:
                walk = self.walks[link.account] = ChainWalk(link.account)
                if self._believed and link.number > 1:
                    walk.resume(link)
            self.tell(walk.step(link, posting.meta))

    def tell(self, found: Break | None) -> None:
        """Keep a break. The first one of an account counts: those behind it follow from it."""
        if found is not None:
            self.broken.setdefault(found.account, found)
