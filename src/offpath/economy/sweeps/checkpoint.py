"""The sweep that seals where every chain stands."""

from __future__ import annotations

import logging

from msgspec.structs import replace

from offpath.economy.ledger.checkpoint import seal
from offpath.economy.sweeps import standing, telemetry
from offpath.economy.sweeps.checkpoint_verify import last_published
from offpath.economy.sweeps.context import Pass, code_of, retryable
from offpath.economy.sweeps.summaries import Coded, SealSummary
from offpath.model.ledger.records import Checkpoint


async def checkpoint(run: Pass) -> SealSummary:
    """Seal, and publish it at the anchor, which never blocks. Without a signer it rests.

    What does not follow the checkpoint that the anchor has is not sealed: to seal and publish it
    would end the alarm of a ledger that was put back.
    """
    signer = run.economy.ports.signer
    if signer is None:
        return SealSummary()
    began = run.clock.monotonic()
    anchored = await last_published(run)
    try:
        made = await seal(
            run.store,
            signer,
            new_id=lambda: f"chk_{run.economy.new_id()}",
            now=lambda: run.at,
            anchored=anchored,
        )
    except Exception as error:  # noqa: BLE001 - told in the summary
        summary = _failed(run, error)
        await _kept(run, error, anchored)
    else:
        summary = SealSummary() if made is None else await _published(run, made)
    telemetry.sealed(run.metrics, _outcome(summary), run.clock.monotonic() - began)
    return summary


async def _kept(run: Pass, error: Exception, anchored: Checkpoint | None) -> None:
    try:
        await standing.refused(run, error, anchored)
    except Exception as second:  # noqa: BLE001 - the pass is told as failed in any case
        run.tell(logging.WARNING, "worker.checkpoint.unrecorded", code=code_of(second))


def _failed(run: Pass, error: Exception) -> SealSummary:
    coded = (Coded("checkpoint", code_of(error)),)
    again = retryable(error)
    level = logging.WARNING if again else logging.ERROR
    run.tell(level, "worker.checkpoint.failed", code=code_of(error))
    return SealSummary(
        skipped=False, retrying=coded if again else (), dead_lettered=() if again else coded
    )


async def _published(run: Pass, made: Checkpoint) -> SealSummary:
    summary = SealSummary(sealed=made.id, skipped=False)
    anchor = run.economy.ports.anchor
    if anchor is None:
        return summary
    try:
        timeout = run.economy.ports.anchor_timeout
        await run.calls.call("the anchor's publish", anchor.publish, made, timeout=timeout)
    except Exception as error:  # noqa: BLE001 - sealing goes on without it
        run.tell(
            logging.WARNING, "worker.checkpoint.anchor_failed", id=made.id, code=code_of(error)
        )
        telemetry.anchored(run.metrics, "failed")
        return replace(summary, anchored=False)
    telemetry.anchored(run.metrics, "anchored")
    return replace(summary, anchored=True)


def _outcome(summary: SealSummary) -> str:
    if summary.sealed is not None:
        return "sealed"
    if summary.retrying:
        return "retrying"
    return "dead_lettered" if summary.dead_lettered else "skipped"
