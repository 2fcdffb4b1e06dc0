"""The orders of one worker's queues. A lease has one order, so each order has leases of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from offpath.model.lease import Order

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from offpath.model.job import LeasedJob

MOST_QUEUES = 1_000
"""Queues of a line that are remembered."""


class OrderLine(Struct, eq=False):
    """Queues that have the same order."""

    order: Order
    queues: tuple[str, ...] = ()
    """Empty means all but the skipped ones."""
    skipped: tuple[str, ...] = ()
    """Queues of other lines."""
    turn: float = 0.0
    """The jobs that a queue of it had lately: whose is least is asked first."""
    seen: set[str] = set()
    """Queues of it that gave jobs lately."""


class OrderLines:
    """The lines of a worker, in turns: a line counts as much as it has queues with work."""

    __slots__ = ("_lines", "queues")

    def __init__(
        self, queues: tuple[str, ...], order: Order, orders: Mapping[str, Order] | None = None
    ) -> None:
        self.queues = queues
        named = {
            name: each for name, each in (orders or {}).items() if not queues or name in queues
        }
        by_order: dict[Order, list[str]] = {}
        for name in queues or named:
            by_order.setdefault(named.get(name, order), []).append(name)
        if not queues:
            by_order.pop(order, None)
        lines = [OrderLine(order=each, queues=tuple(of)) for each, of in by_order.items()]
        if not queues:
            skipped = tuple(name for name, each in named.items() if each is not order)
            lines.insert(0, OrderLine(order=order, skipped=skipped))
        self._lines = lines

    def in_turn(self) -> list[OrderLine]:
        """The lines, whose turn it is first."""
        if len(self._lines) == 1:
            return self._lines
        return sorted(self._lines, key=lambda line: line.turn)

    def took(self, line: OrderLine, jobs: Iterable[LeasedJob], *, all_of_it: bool) -> None:
        """A lease of a line gave these; ``all_of_it`` when there was room for more, but no more.

        A line that had nothing to do for a while does not make up for it.
        """
        if len(self._lines) == 1:
            return
        queues = [job.queue for job in jobs]
        line.seen.update(queues)
        line.turn += len(queues) / max(len(line.seen), 1)
        if all_of_it or len(line.seen) > MOST_QUEUES:
            line.seen.clear()
            line.turn = max(each.turn for each in self._lines)
        # Only the differences count, and without this the numbers would grow for ever.
        least = min(each.turn for each in self._lines)
        for each in self._lines:
            each.turn -= least
