"""The sweep that acts on findings: it contains the damage by rule, and says so in the audit.

A rule has a cool-down and a cap. What it decides by is the audit itself, so another worker, a
restart and a deploy go on where this one was. Nothing that rests goes on by itself: an operator's
word ends it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from offpath.economy.ledger import levers
from offpath.economy.ledger.audit import (
    AuditRecord,
    NewRecord,
    Phase,
    audited,
    of_subject,
    trail,
)
from offpath.economy.ledger.levers import Lever
from offpath.economy.ledger.mismatches import (
    BREACH,
    CONTAINED,
    DRIFT,
    MISMATCH,
    UNEXPLAINED,
    UNPAID,
)
from offpath.economy.sweeps.drain_inbox import SOURCE
from offpath.economy.sweeps.sweep import store_time
from offpath.model.job import DeadReason
from offpath.model.message import Box, MessageFilter, MessageState
from offpath.model.tally import Tally
from offpath.runtime.log import logger

if TYPE_CHECKING:
    from datetime import datetime

    from offpath.economy.sweeps.context import SweptEconomy
    from offpath.model.finding import FindingRecord
    from offpath.store.protocol import Store
    from offpath.sweeps.context import SweepContext

RULE: Final = "rule"
"""The one who acts by rule."""
INBOX: Final = "inbox"
"""The subject of dead reports of providers."""
REVIVED: Final = 10
"""The most dead reports that are put back at once."""
HINT: Final = "offpath economy release --reason ..."
_OURS: Final = (MISMATCH, BREACH, UNEXPLAINED, UNPAID)
_log = logger("economy")


class Containment:
    """Looks at what stands, acts, and writes each step to the audit."""

    def __init__(self, economy: SweptEconomy) -> None:
        self._economy = economy

    async def run(self, _ctx: SweepContext, now: datetime, limit: int) -> Tally:  # noqa: ARG002 - a sweep's
        """One look at all findings."""
        looked = _Look(self._economy, min(now, await store_time(self._economy)))
        await looked.begin()
        await looked.findings()
        await looked.inbox()
        return Tally(counted=looked.counts)


class _Look:
    def __init__(self, economy: SweptEconomy, now: datetime) -> None:
        self._economy = economy
        self._now = now
        self._trail: list[AuditRecord] = []
        self._made: set[tuple[Phase, str]] = set()
        self.counts: dict[str, int] = {}

    @property
    def _store(self) -> Store:
        found: Store = self._economy.app.store()
        return found

    async def begin(self) -> None:
        async with self._store.ledger_snapshot() as reads:
            self._trail = await trail(reads)

    async def findings(self) -> None:
        standing = {one.name: one for one in await self._store.findings() if _about_money(one.name)}
        for one in standing.values():
            if one.hinders:
                await self._found(one)
        for subject in {one.subject for one in self._trail if _about_money(one.subject)}:
            await self._perhaps_ended(subject, standing.get(subject))

    async def _found(self, finding: FindingRecord) -> None:
        await self._note(Phase.DETECTED, finding.name, finding.id, finding.text)
        if finding.kind in self._economy.settings.contain:
            await self._contain(finding)
        elif finding.name != MISMATCH:
            await self._escalate(finding.name, finding.id, f"{finding.text}: no rule acts on it")
        else:  # what a mismatch stops, its sweeps stop by themselves
            await self._note(
                Phase.ACTED,
                finding.name,
                finding.id,
                "nothing is sealed, paid out or taken as a fee",
            )

    async def _contain(self, finding: FindingRecord) -> None:
        resting = await levers.resting(self._store, self._now)
        acts = of_subject(self._trail, finding.name, Phase.ACTED)
        if resting == frozenset(Lever):
            if not acts:  # a pass before was cut off between the two
                await self._acted(finding, len(acts))
            await self._keep(finding)
            return
        if self._cooling(Phase.RELEASED, (one.value for one in Lever)):
            return
        if len(acts) >= self._economy.settings.contain_most:
            text = f"it was contained {len(acts)} times, and released each time"
            await self._escalate(finding.name, finding.id, text)
            return
        for lever in Lever:
            await levers.rest(self._store, lever)
        await self._acted(finding, len(acts))

    async def _acted(self, finding: FindingRecord, turn: int) -> None:
        await self._note(Phase.ACTED, finding.name, finding.id, _text(finding), turn=turn)
        await self._keep(finding)

    async def _keep(self, finding: FindingRecord) -> None:
        """Keep that something rests as a finding of its own, for whoever looks at health."""
        await self._store.record_finding(CONTAINED, _text(finding), new_id=self._economy.new_id())

    async def _perhaps_ended(self, subject: str, standing: FindingRecord | None) -> None:
        if standing is not None and standing.hinders:
            return
        open_ones = of_subject(self._trail, subject)
        if open_ones:
            why = "it is not so any more"
            if standing is not None:
                why = f"accepted: {standing.reason}"
            await self._note(Phase.ENDED, subject, open_ones[0].episode, why)

    async def inbox(self) -> None:
        """Put dead reports of providers back a few times: what killed them may be over."""
        dead = MessageFilter(
            box=Box.IN,
            streams=(SOURCE,),
            states=(MessageState.DEAD,),
            not_reasons=(DeadReason.REJECTED,),
        )
        page = await self._store.find_messages(dead, limit=REVIVED, newest=False)
        acts = of_subject(self._trail, INBOX, Phase.ACTED)
        ended = of_subject(self._trail, INBOX, Phase.ENDED)
        episode = f"{INBOX}:{ended[0].number if ended else 0}"
        if not page.items:
            if of_subject(self._trail, INBOX) and not self._cooling(Phase.ACTED, (INBOX,)):
                await self._note(Phase.ENDED, INBOX, episode, "no report is dead any more")
            return
        ids = [one.id for one in page.items]
        if self._cooling(Phase.ACTED, (INBOX,)):
            return
        if len(acts) >= self._economy.settings.contain_most:
            text = f"reports of providers are dead after {len(acts)} redrives, such as {ids[0]}"
            await self._escalate(INBOX, episode, text)
        else:
            revived = await self._store.revive_messages(ids)
            text = f"{len(revived)} dead reports were put back, such as {ids[0]}"
            await self._note(Phase.ACTED, INBOX, episode, text, turn=len(acts))

    def _cooling(self, phase: Phase, subjects: Iterable[str]) -> bool:
        wait = timedelta(seconds=self._economy.settings.contain_cooldown)
        named = frozenset(subjects)
        last = next(
            (one for one in self._trail if one.phase is phase and one.subject in named), None
        )
        return last is not None and self._now - last.at < wait

    async def _escalate(self, subject: str, episode: str, text: str) -> None:
        if await self._note(Phase.ESCALATED, subject, episode, text):
            _log.error("economy.escalated", extra={"subject": subject, "detail": text})

    async def _note(
        self, phase: Phase, subject: str, episode: str, detail: str, *, turn: int = 0
    ) -> bool:
        """Make a record, once. False: it was there."""
        known = any(
            one.phase is phase and one.episode == episode
            for one in self._trail
            if phase is not Phase.ACTED or turn < len(of_subject(self._trail, subject, phase))
        )
        if known:
            return False
        made = NewRecord(
            phase=phase, subject=subject, detail=detail, episode=episode, by=RULE, turn=turn
        )
        decided = await self._economy.run_op(audited(made, self._economy.new_id()))
        if decided.error is not None:
            raise decided.error
        if decided.duplicate:
            return False
        self.counts[phase.value] = self.counts.get(phase.value, 0) + 1
        level = logging.INFO if phase is Phase.ENDED else logging.WARNING
        _log.log(level, f"economy.{phase}", extra={"subject": subject, "detail": detail})
        return True


def _text(finding: FindingRecord) -> str:
    return f"payouts and fees rest since {finding.name} was found; end it: {HINT}"


def _about_money(name: str) -> bool:
    return name in _OURS or name.startswith(DRIFT)
