"""The loop that carries actions of operators on whose process has gone, step by step.

Every worker has it, for what needs code is done where that is: one leader of the fleet might not
have it. An action is held by one at a time. Between two steps it rests for as long
as the step took, so that a bulk action never takes more than half of a connection's time.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from offpath.app import App
from offpath.errors import StoreError
from offpath.model.action import ActionRecord, ActionState
from offpath.model.tally import Turn, Verdict
from offpath.operating import actions
from offpath.runtime.loop import LoopSpec
from offpath.store.hints import Hint

NAME: Final = "actions"
EVERY: Final = 5.0
"""Seconds between two looks for an action that somebody has left: one probe of a small index. One
that is given back is told, and looked for at once.
"""
MOST_STRANGE: Final = 100
"""Actions that are remembered because their code is not here."""
LONGEST_REST: Final = 2.0
"""Seconds between two steps at most, however long one took."""
_NOTHING: Final = Turn(verdict=Verdict.EMPTY)


class ActionLoop:
    """Carries on what a dead process left of an action."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._held: ActionRecord | None = None
        self._strange: deque[str] = deque(maxlen=MOST_STRANGE)
        """Actions for which the code is not here: they were given back."""

    def spec(self) -> LoopSpec:
        """The loop as a worker drives it. Work of operators makes no worker unready."""
        return LoopSpec(
            name=NAME,
            step=self.step,
            interval=EVERY,
            critical=False,
            wakes=frozenset({Hint.ACTIONS}),
            stop=self._leave,
        )

    async def step(self) -> Turn:
        """Take up an action that somebody has left, or do one more step of the one that is held.

        Raises what the store raises while it is away; its lease ends by itself then.
        """
        record, self._held = self._held or await self._taken(), None
        if record is None:
            return _NOTHING
        began = self._app.clock.monotonic()
        advanced = await actions.advance(self._app, record)
        if advanced.goes_on:
            self._held = advanced.record
            took = self._app.clock.monotonic() - began
            return Turn(counts={"stepped": 1}, again=min(took, LONGEST_REST) or True)
        if advanced.elsewhere:
            self._strange.append(record.id)
            return Turn(verdict=Verdict.EMPTY, again=True)
        return _ended(advanced.record)

    async def _taken(self) -> ActionRecord | None:
        store, verbs, skip = self._app.store(), actions.carried_verbs(), tuple(self._strange)
        # a read first: on SQLite a write would take the lock of the file, every few seconds
        if not await store.has_late_action(verbs=verbs, skip=skip):
            return None
        holder = f"worker/{self._app.new_id()}"
        return await store.take_action(holder, verbs=verbs, lease=actions.LEASE, skip=skip)

    async def _leave(self, _seconds: float) -> None:
        """Let others go on with what is held here."""
        record, self._held = self._held, None
        if record is not None:
            try:
                await actions.give_back(self._app, record)
            except StoreError as error:
                if not error.retryable:
                    raise


def _ended(record: ActionRecord) -> Turn:
    failed = record.state is ActionState.FAILED
    return Turn(
        verdict=Verdict.DEGRADED if failed else Verdict.CLEAN,
        counts={record.state.value: 1},
        again=True,
        cause=f"the action {record.id} ({record.verb}) failed" if failed else None,
    )
