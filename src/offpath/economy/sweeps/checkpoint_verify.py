"""The sweep that asks whether the ledger only grew since it was last sealed."""

from __future__ import annotations

import logging

from offpath.economy.ledger.rolling_proof import RollingProof
from offpath.economy.ledger.verification import Verification, verify_last
from offpath.economy.sweeps import standing, telemetry
from offpath.economy.sweeps.context import Pass, code_of, retryable
from offpath.economy.sweeps.reproof import lines_of, reproved
from offpath.economy.sweeps.summaries import Coded, VerifySummary
from offpath.model.ledger.records import Checkpoint


async def checkpoint_verify(run: Pass) -> VerifySummary:
    """Verify the last checkpoint; a mismatch is a finding. Without a signer it rests."""
    signer = run.economy.ports.signer
    if signer is None:
        return VerifySummary()
    try:
        anchored = await last_published(run)
        found = await verify_last(run.store, signer, anchored)
        await standing.verified(run, found)
        await standing.trimmed(run)
        again_proved = await reproved(run)
        if again_proved is not None and not again_proved.holds:
            await standing.mismatched(run, lines_of(again_proved))
    except Exception as error:  # noqa: BLE001 - told in the summary
        coded = (Coded("checkpoint", code_of(error)),)
        again = retryable(error)
        return VerifySummary(
            skipped=False, retrying=coded if again else (), dead_lettered=() if again else coded
        )
    if found.checkpoint is None and not found.mismatch and again_proved is None:
        return VerifySummary()
    return _told(run, found, again_proved)


def _told(run: Pass, found: Verification, slice_: RollingProof | None) -> VerifySummary:
    verified = None if found.checkpoint is None else found.checkpoint.id
    problems = (*found.lines, *(() if slice_ is None else lines_of(slice_)))
    mismatch = found.mismatch or not (slice_ is None or slice_.holds)
    telemetry.verified(run.metrics, "mismatch" if mismatch else "ok")
    if mismatch:
        run.tell(logging.ERROR, "worker.checkpoint.mismatch", id=verified, problems=problems)
    return VerifySummary(
        verified=verified,
        skipped=False,
        mismatch=mismatch,
        problems=problems,
        reproved=None if slice_ is None else f"{slice_.number}/{slice_.of}",
    )


async def last_published(run: Pass) -> Checkpoint | None:
    """The anchor's checkpoint. An anchor that is away proves nothing and blocks nothing."""
    anchor = run.economy.ports.anchor
    if anchor is None:
        return None
    try:
        timeout = run.economy.ports.anchor_timeout
        found: Checkpoint | None = await run.calls.call(
            "the anchor's latest", anchor.latest, timeout=timeout
        )
    except Exception as error:  # noqa: BLE001 - the ledger itself can still be verified
        run.tell(logging.WARNING, "worker.checkpoint.anchor_failed", code=code_of(error))
        telemetry.anchored(run.metrics, "failed")
        return None
    return found
