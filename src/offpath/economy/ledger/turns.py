"""Operations that are given as a list: what of it can be planned and decided together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from msgspec.structs import replace

from offpath.economy.ledger.operations.families import FAMILIES, Operation
from offpath.economy.ledger.outcome import Outcome
from offpath.model.ledger.book import Book
from offpath.model.ledger.decision import LedgerOp
from offpath.model.ledger.faults import KeyReused, LedgerError, Unplanned
from offpath.model.ledger.records import Receipt

Answer: TypeAlias = Outcome | LedgerError
_NAMES: Final = ("order_id", "payout_id", "posting_id", "buyer", "user")
"""Fields of requests that name what others look at."""


def parted(requests: Sequence[Operation]) -> tuple[dict[int, Operation], dict[int, Answer]]:
    """By its place what is to be decided, and what is refused since its key was there before."""
    fresh: dict[int, Operation] = {}
    answers: dict[int, Answer] = {}
    keys: set[str] = set()
    for n, request in enumerate(requests):
        key = str(getattr(request, "key", ""))
        if key in keys:
            answers[n] = KeyReused(f"the key {key!r} is twice in one batch: the first one stands")
        else:
            fresh[n] = request
            keys.add(key)
    return fresh, answers


def runs(requests: Mapping[int, Operation]) -> Iterator[dict[int, Operation]]:
    """The requests in parts that can be planned together: one that looks at what those before it
    name begins a new part, planned when they are decided.
    """
    run: dict[int, Operation] = {}
    named: set[str] = set()
    for n, request in requests.items():
        told = (getattr(request, field, None) for field in _NAMES)
        names = {name for name in told if isinstance(name, str)}
        family = FAMILIES.get(type(request))
        looks = family is not None and family.look is not None and not family.late
        if looks and not named.isdisjoint(names):
            yield run
            run, named = {}, set()
        run[n] = request
        named |= names
    if run:
        yield run


class TurnKeeper:
    """Keeps operations in turn that are decided together: behind one that has to be planned anew,
    as what it needs was only found out in deciding it, none is decided before it.
    """

    def __init__(self) -> None:
        self._waits = False

    def take(self, op: LedgerOp) -> LedgerOp:
        """The operation, decided in turn. Should the store begin its transaction again, all of them
        may be planned anew: they are decided later then, and in turn all the same.
        """

        def decide(book: Book) -> Receipt:
            if self._waits:
                raise Unplanned("one before it is planned anew")
            try:
                return op.decide(book)
            except Unplanned:
                self._waits = True
                raise

        return replace(op, decide=decide)
