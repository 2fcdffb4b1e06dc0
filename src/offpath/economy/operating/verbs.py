"""The verbs of an economy: proofs, seals, and its sweeps at rest.

What needs the economy's own code (its rates, its keys) is done by a process that has it. Any other
one gives the action back, and a worker of the app takes it up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct

from offpath.economy import pauses
from offpath.economy.ledger.proof import fails
from offpath.economy.operating.views import SEALING
from offpath.economy.passes import seal_checkpoint, verify_checkpoint
from offpath.errors import InvalidArgument
from offpath.jobs.client.core import core_of
from offpath.model.tally import SweepResult
from offpath.operating.flow_steps import PauseOptions, pause_end
from offpath.operating.rights import Can
from offpath.operating.steps import DONE, ELSEWHERE, Step, Stepped, once
from offpath.operating.verbs import NoOptions, Verb
from offpath.sweeps.run_log import RunLog

if TYPE_CHECKING:
    from collections.abc import Sequence

    from offpath.app import App
    from offpath.economy.economy import Economy
    from offpath.economy.sweeps.summaries import Coded, SealSummary
    from offpath.operating.steps import ActionWork

_MOST_TOLD: Final = 20
"""Problems of a verification that an action names."""


class BooksTarget(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The books of the app's economy: there is one."""


class EconomyTarget(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The app's economy: there is one."""


class ProveOptions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The options of a proof."""

    full: bool = True
    """True to replay every chain; False looks at accounts only."""


def _economy(app: App) -> Economy | None:
    """The economy of an app, where its code is."""
    found: list[Economy] = core_of(app).economies
    return found[0] if found else None


async def prove(app: App, work: ActionWork) -> Stepped:
    """Prove that the books hold; what does not is the reason."""
    economy = _economy(app)
    if economy is None:
        return ELSEWHERE
    options: ProveOptions = work.options
    proof = await economy.prove(full=options.full)
    return Stepped(changed=proof.accounts, left=fails(proof))


async def verify(app: App, _: ActionWork) -> Stepped:
    """Verify that the ledger only grew since it was sealed; a mismatch is kept as a finding."""
    economy = _economy(app)
    if economy is None:
        return ELSEWHERE
    _require_signer(economy)
    done = await verify_checkpoint(economy)
    _refuse_failed((*done.retrying, *done.dead_lettered))
    if done.mismatch:
        return Stepped(left={f"mismatch: {one}"[:120]: 1 for one in done.problems[:_MOST_TOLD]})
    return once(changed=done.verified is not None, why="nothing_sealed_yet")


async def _sealed(economy: Economy) -> SealSummary:
    """A seal whose run is kept as one of its sweep: the page of the books tells of the last."""
    app = economy.app
    log = RunLog(SEALING, "", app.store(), app.clock, app.new_id)
    began = app.clock.monotonic()
    summary = await seal_checkpoint(economy)
    took = app.clock.monotonic() - began
    await log.note(SweepResult(name=SEALING, tally=summary.tally(), seconds=took), economy.report)
    return summary


async def seal(app: App, _: ActionWork) -> Stepped:
    """Prove what moved since the last checkpoint, and sign."""
    economy = _economy(app)
    if economy is None:
        return ELSEWHERE
    _require_signer(economy)
    done = await _sealed(economy)
    _refuse_failed((*done.retrying, *done.dead_lettered))
    if done.anchored is False:
        return Stepped(changed=1, left={"not_published_at_the_anchor": 1})
    return once(changed=done.sealed is not None, why="nothing_was_posted_since")


def _require_signer(economy: Economy) -> None:
    if economy.ports.signer is None:
        raise InvalidArgument("the economy has no signer: give Economy(signer=…) to its workers")


def _refuse_failed(failed: Sequence[Coded]) -> None:
    if failed:
        raise InvalidArgument(f"it failed with {failed[0].code}; the worker's log says why")


async def pause(app: App, work: ActionWork) -> Stepped:
    """Have the economy's sweeps rest on every worker."""
    await pauses.pause(app.store(), pause_end(work))
    return DONE


async def resume(app: App, _: ActionWork) -> Stepped:
    """Have them go on."""
    return once(changed=await pauses.resume(app.store()), why="not_paused")


async def release(app: App, work: ActionWork) -> Stepped:
    """Have payouts and fees go on that rest since a finding is contained; the note says why."""
    economy = _economy(app)
    if economy is None:
        return ELSEWHERE
    if not work.record.note.strip():
        raise InvalidArgument("say why money may move again: the audit keeps it, with your name")
    released = await economy.release(work.record.note, by=work.record.actor)
    return Stepped(changed=len(released), left={} if released else {"nothing_rested": 1})


def _verb(
    name: str,
    words: str,
    done: str,
    step: Step,
    target: type[Struct],
    options: type[Struct] = NoOptions,
) -> Verb:
    return Verb(
        name=name,
        words=words,
        done=done,
        right=Can.MONEY,
        target=target,
        options=options,
        step=step,
        typed=lambda _: name.partition(".")[0],
    )


MONEY_VERBS: Final = (
    _verb("ledger.prove", "Prove", "accounts looked at", prove, BooksTarget, ProveOptions),
    _verb("ledger.verify", "Verify", "verified", verify, BooksTarget),
    _verb("ledger.checkpoint", "Seal", "sealed", seal, BooksTarget),
    _verb("economy.pause", "Pause sweeps", "paused", pause, EconomyTarget, PauseOptions),
    _verb("economy.resume", "Resume sweeps", "resumed", resume, EconomyTarget),
    _verb("economy.release", "Release", "released", release, EconomyTarget),
)
"""The verbs of an economy."""
