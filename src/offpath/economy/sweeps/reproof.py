"""The slices of the rolling proof that workers prove by themselves, each once in the fleet.

Which are done is kept as claims in the store, so another worker goes on where one has stopped.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from offpath.economy.ledger.rolling_proof import ProofTurn, RollingProof, prove_turn, turn_at
from offpath.economy.sweeps.context import Pass

SLICES: Final = 168
"""Of a cycle: each hour one in a cycle of a week."""
BACK: Final = 24
"""The most slices that are made up for after a standstill."""
_TAKEN: Final = 900.0
"""Seconds for which a slice is this pass's."""


async def reproved(run: Pass) -> RollingProof | None:
    """Prove the oldest slice of this cycle whose turn has come; None when none is left to prove."""
    cycle = run.settings.prove_cycle
    if cycle is None:
        return None
    newest, holder = turn_at(run.now, cycle, cycle / SLICES), run.economy.new_id()
    mine: list[tuple[ProofTurn, str]] = []
    for number in range(newest.number, max(newest.number - BACK, 0), -1):
        key = f"economy.prove:{newest.begun.timestamp():.0f}:{cycle:g}:{number}"
        if not await run.store.claim(key, holder, ttl=_TAKEN):
            break
        mine.append((replace(newest, number=number), key))
    for _, key in mine[:-1]:
        await run.store.release_claim(key, holder)
    if not mine:
        return None
    turn, key = mine[-1]
    try:
        found = await prove_turn(run.store, turn)
    except BaseException:
        await run.store.release_claim(key, holder)
        raise
    # As long as the cycle is, so that nobody proves it again in it.
    await run.store.claim(key, holder, ttl=cycle + _TAKEN, renew=True)
    return found


def lines_of(found: RollingProof) -> tuple[str, ...]:
    """The findings of a slice, as a mismatch names them."""
    if found.proof is None:
        return ()
    return (*(str(one) for one in found.proof.breaks), *found.proof.wrong)
