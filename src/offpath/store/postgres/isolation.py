"""Settling a batch of which some cannot be stored: they are refused and hold back no other."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from offpath.errors import Conflict, InvalidArgument, StoreRejected
from offpath.store.postgres.faults import KeyMoved
from offpath.store.postgres.ledger_post import OperationsFailed

S = TypeVar("S")
A = TypeVar("A")

_OF_ONE = (StoreRejected, Conflict, InvalidArgument, KeyMoved)
"""Errors that concern one settlement, however many were sent with it."""


async def settle_apart(
    settlements: Sequence[S],
    together: Callable[[Sequence[S]], Awaitable[list[A]]],
    rehearse: Callable[[Sequence[S]], Awaitable[None]],
    refused: Callable[[S, Exception], A],
) -> list[A]:
    """Settle what can be stored in one commit; the others are answered by ``refused``.

    Who is to blame is found by rehearsals that are undone, so nothing is written in parts.
    """
    culprits: dict[int, Exception] = {}
    while True:
        # Anew each time: without a culprit others may go or not go, as two that wanted one key.
        good = [n for n in range(len(settlements)) if n not in culprits]
        try:
            settled = await together([settlements[n] for n in good])
        except OperationsFailed as failed:
            culprits |= {good[n]: error for n, error in failed.errors.items()}
        except _OF_ONE as error:
            culprits |= await _culprits(settlements, good, error, rehearse)
        else:
            answers = dict(zip(good, settled, strict=True))
            answers |= {n: refused(settlements[n], error) for n, error in culprits.items()}
            return [answers[n] for n in range(len(settlements))]


async def _culprits(
    settlements: Sequence[S],
    suspects: Sequence[int],
    error: Exception,
    rehearse: Callable[[Sequence[S]], Awaitable[None]],
) -> dict[int, Exception]:
    """The suspects that cannot be stored, found by halving. Together they gave ``error``."""
    if len(suspects) == 1:
        return {suspects[0]: error}
    found: dict[int, Exception] = {}
    # By halves, one bad settlement of a batch of 500 is found in some twenty rehearsals.
    half = len(suspects) // 2
    for part in (suspects[:half], suspects[half:]):
        try:
            await rehearse([settlements[n] for n in part])
        except OperationsFailed as failed:
            found |= {part[n]: one for n, one in failed.errors.items()}
        except _OF_ONE as own:
            found |= await _culprits(settlements, part, own, rehearse)
    return found or await _first_in_the_way(settlements, suspects, error, rehearse)


async def _first_in_the_way(
    settlements: Sequence[S],
    suspects: Sequence[int],
    error: Exception,
    rehearse: Callable[[Sequence[S]], Awaitable[None]],
) -> dict[int, Exception]:
    """The first suspect that cannot be stored behind those before it: each half alone can be.

    Only what it would be written on top of shows that, as for a fold that does not take the value
    that another one has made.
    """
    stored, refused = len(suspects) // 2, len(suspects)
    while refused - stored > 1:
        middle = (stored + refused) // 2
        try:
            await rehearse([settlements[n] for n in suspects[:middle]])
        except OperationsFailed as failed:
            return {suspects[n]: one for n, one in failed.errors.items()}
        except _OF_ONE as own:
            refused, error = middle, own
        else:
            stored = middle
    return {suspects[refused - 1]: error}
