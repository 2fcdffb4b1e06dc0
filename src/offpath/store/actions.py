"""The part of the store that keeps what operators asked for.

The rules of the store's protocol hold here too. An action's row is written before anything of it is
done, and again after each of its steps, so that who reads it knows of what a dead process began.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from offpath.model.action import ActionFilter, ActionProgress, ActionRecord, NewAction
from offpath.store.absence import none_of, refused
from offpath.store.capabilities import Profile


class ActionStore(Protocol):
    """Actions of operators."""

    async def put_action(self, action: NewAction) -> ActionRecord:
        """Note that something was asked for. One whose id exists is answered as it is: whether it
        is this caller's tells its ``holder``.
        """
        ...

    async def step_action(self, progress: ActionProgress) -> ActionRecord | None:
        """Note how far an action is, and hold it for another ``lease`` seconds.

        With a state other than running it ends now. One that was stopped takes the counts of the
        step that was under way, and stays stopped. None: it is not this holder's, or has ended.
        A repeat changes nothing but the lease. A lease of 0 gives it back: who listens hears that.
        """
        ...

    async def take_action(
        self, holder: str, *, verbs: Sequence[str], lease: float, skip: Sequence[str] = ()
    ) -> ActionRecord | None:
        """Hold the oldest running action of these verbs whose holder's time is over, but for those
        of the ids in ``skip``.

        It is marked as resumed. None: there is none that nobody else is taking.
        """
        ...

    async def has_late_action(self, *, verbs: Sequence[str], skip: Sequence[str] = ()) -> bool:
        """True if :meth:`take_action` would find one: a read, for whoever asks again and again."""
        ...

    async def stop_action(self, action: str) -> bool:
        """End a running action between two of its steps. False: unknown, or ended already."""
        ...

    async def actions(
        self, where: ActionFilter, *, limit: int = 100, after: str | None = None
    ) -> list[ActionRecord]:
        """Actions that match, newest first; ``after`` is the last id of the page before."""
        ...

    async def prune_actions(self, *, before: datetime, limit: int) -> int:
        """Remove up to ``limit`` actions that were asked for before that time and have ended, or
        that nobody has held since; returns how many.
        """
        ...


class WithoutActions:
    """A store that carries out no actions of operators."""

    put_action = refused(Profile.OPERATING, ActionStore.put_action)
    step_action = refused(Profile.OPERATING, ActionStore.step_action)
    take_action = none_of(ActionStore.take_action, lambda: None)
    has_late_action = none_of(ActionStore.has_late_action, lambda: False)
    stop_action = refused(Profile.OPERATING, ActionStore.stop_action)
    actions = none_of(ActionStore.actions, list)
    prune_actions = none_of(ActionStore.prune_actions, lambda: 0)
