"""Settling a batch of which some cannot be stored: they are refused and hold back no other."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from offpath.errors import Conflict, InvalidArgument, StoreRejected
from offpath.store.postgres.ledger_post import OperationsFailed

S = TypeVar("S")
A = TypeVar("A")


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
        good = [n for n in range(len(settlements)) if n not in culprits]
        try:
            settled = await together([settlements[n] for n in good])
        except OperationsFailed as failed:
            culprits |= {good[n]: error for n, error in failed.errors.items()}
        except (StoreRejected, Conflict, InvalidArgument) as error:
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
    """Which of the suspects cannot be stored, by halving. Together they gave ``error``."""
    if len(suspects) == 1:
        return {suspects[0]: error}
    found: dict[int, Exception] = {}
    half = len(suspects) // 2
    for part in (suspects[:half], suspects[half:]):
        try:
            await rehearse([settlements[n] for n in part])
        except OperationsFailed as failed:
            found |= {part[n]: one for n, one in failed.errors.items()}
        except (StoreRejected, Conflict, InvalidArgument) as own:
            found |= await _culprits(settlements, part, own, rehearse)
    # each half alone can be stored: the later one gives way
    return found or {suspects[-1]: error}
