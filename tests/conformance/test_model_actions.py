"""Random actions beside a model of rows: each changes what was seen, once, and nothing else.

A hand is somebody's hold on an action. Hands are lost, taken over and stopped at random between
two steps, and rows move meanwhile: they die again, are put back, and new ones die.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Coroutine
from typing import Any, Final, TypeVar, cast

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    precondition,
    rule,
    run_state_machine_as_test,
)
from msgspec import Struct

from offpath import App
from offpath.model.action import ActionRecord, ActionState
from offpath.model.job import JobState
from offpath.operating import actions
from offpath.operating.actions import LEASE, Asker
from offpath.operating.orders import ActionAsked
from offpath.runtime.clock import ManualClock
from offpath.store.protocol import JobRedrive, Store
from tests.conformance.builders import die, join, start, take_one

T = TypeVar("T")
pytestmark = [pytest.mark.needs("operating"), pytest.mark.timeout(600)]
ANN: Final = Asker(name="ann", via="dashboard")
_NUMBERS: Final = itertools.count()
_TASKS: Final = ("mail", "thumb")
_AFTER: Final = {"job.redrive": JobState.QUEUED, "job.delete": None}
"""The state of a dead row after each verb; None: it is gone."""


class Seen(Struct):
    """An action, and the deaths that it was asked about: the id and how often it had died."""

    verb: str
    deaths: frozenset[tuple[str, int]]
    changed: set[str]


class ActionMachine(RuleBasedStateMachine):
    """A store, and what its rows must be."""

    def __init__(
        self, app: App, store: Store, clock: ManualClock, loop: asyncio.AbstractEventLoop
    ) -> None:
        super().__init__()
        self._app, self._store, self._clock, self._loop = app, store, clock, loop
        self._own = f"x{next(_NUMBERS)}"
        self._rows: dict[str, tuple[str, JobState | None, int]] = {}
        """Each job: its task, its state, and how often it has died."""
        self._seen: dict[str, Seen] = {}
        self._hands: list[ActionRecord] = []
        self._first = 0
        self._wrong = False

    def _do(self, call: Coroutine[Any, Any, T]) -> T:
        self._clock.advance(1)  # so that before and after are told apart
        return asyncio.run_coroutine_threadsafe(call, self._loop).result(60)

    def _task(self, name: str) -> str:
        return f"{self._own}.{name}"

    def _of(self, task: str) -> list[str]:
        return [one for one, row in self._rows.items() if row[0] == task]

    @rule(name=st.sampled_from(_TASKS), count=st.integers(1, 4))
    def some_die(self, name: str, count: int) -> None:
        """New jobs of a task fail for good."""
        for _ in range(count):
            self._rows[self._do(self._died(name))] = (name, JobState.DEAD, 1)

    async def _died(self, name: str) -> str:
        # before those that were put back: it is the one that is handed out
        self._first += 1
        job = await start(self._store, task=self._task(name), priority=self._first)
        await die(self._store, job)
        return job.id

    @rule(data=st.data())
    @precondition(lambda self: any(row[1] is JobState.DEAD for row in self._rows.values()))
    def one_dies_again(self, data: st.DataObject) -> None:
        """Somebody puts a dead job back by hand, and it fails for good once more."""
        dead = sorted(one for one, row in self._rows.items() if row[1] is JobState.DEAD)
        job = data.draw(st.sampled_from(dead))
        task, _, deaths = self._rows[job]
        self._do(self._again(job))
        self._rows[job] = (task, JobState.DEAD, deaths + 1)

    async def _again(self, job: str) -> None:
        await join(self._store)
        await self._store.redrive([JobRedrive(id=job)])
        task = self._rows[job][0]
        while True:  # those that were put back and come before it die as well
            held = await take_one(self._store, task=self._task(task))
            await die(self._store, held)
            if held.id == job:
                return
            _, state, deaths = self._rows[held.id]
            assert state is JobState.QUEUED
            self._rows[held.id] = (task, JobState.DEAD, deaths + 1)

    @rule(verb=st.sampled_from(sorted(_AFTER)), name=st.sampled_from(_TASKS))
    def one_asks(self, verb: str, name: str) -> None:
        """Somebody asks for all that match."""
        where = {"task": [self._task(name)], "state": ["dead"]}
        asked = ActionAsked(verb=verb, target={"where": where}, confirm="all")
        record = self._do(actions.ask(self._app, asked, ANN))
        deaths = {
            (one, row[2])
            for one, row in self._rows.items()
            if row[0] == name and row[1] is JobState.DEAD
        }
        self._seen[record.id] = Seen(verb, frozenset(deaths), set())
        self._hands.append(record)

    @rule(data=st.data())
    @precondition(lambda self: self._hands)
    def a_hand_goes_on(self, data: st.DataObject) -> None:
        """One step of an action by a hand, which may not hold it any more."""
        place = data.draw(st.integers(0, len(self._hands) - 1))
        hand = self._hands[place]
        advanced = self._do(actions.advance(self._app, hand))
        self._moved_by(hand, advanced.record, lost=advanced.lost)
        if advanced.goes_on:
            self._hands[place] = advanced.record
        else:
            del self._hands[place]
        if advanced.record.state is ActionState.DONE and not advanced.lost:
            self._complete(advanced.record)

    def _moved_by(self, hand: ActionRecord, now: ActionRecord, *, lost: bool) -> None:
        """The rows that this step has changed are among those that were seen, and told right."""
        self._wrong = True
        seen = self._seen[hand.id]
        found = self._do(self._store.states(list(self._rows)))
        for one, (task, state, deaths) in tuple(self._rows.items()):
            if found.get(one) is state:
                continue
            assert not lost, "a hand that has lost its action changes nothing"
            assert (one, deaths) in seen.deaths, "it was not there, or has died again since"
            assert one not in seen.changed, "no action changes a row twice"
            assert found.get(one) is _AFTER[seen.verb]
            seen.changed.add(one)
            self._rows[one] = (task, found.get(one), deaths)
        if not lost:
            assert now.changed == len(seen.changed)
        self._wrong = False

    def _complete(self, record: ActionRecord) -> None:
        """Nothing is left dead of what was seen and did not move since."""
        seen = self._seen[record.id]
        left = {
            one for one, deaths in seen.deaths if self._rows[one][1:] == (JobState.DEAD, deaths)
        }
        assert left == set()

    @rule(data=st.data())
    @precondition(lambda self: self._hands)
    def a_process_is_gone(self, data: st.DataObject) -> None:
        """Its lease ends, and somebody else takes over; the old hand may still wake up."""
        self._clock.advance(LEASE)
        taken = self._do(
            self._store.take_action(f"w/{next(_NUMBERS)}", verbs=tuple(_AFTER), lease=LEASE)
        )
        if taken is not None and taken.id in self._seen:
            self._hands.append(taken)

    @rule(data=st.data())
    @precondition(lambda self: self._hands)
    def one_is_stopped(self, data: st.DataObject) -> None:
        """Somebody stops an action between two of its steps."""
        hand = data.draw(st.sampled_from(self._hands))
        self._do(actions.stop(self._app, hand.id, ANN))

    def teardown(self) -> None:
        """What was begun is carried to its end, each by its last hand."""
        if self._wrong:  # it is told already
            return
        for hand in self._hands[::-1]:
            goes_on, record = True, hand
            while goes_on:
                advanced = self._do(actions.advance(self._app, record))
                self._moved_by(hand, advanced.record, lost=advanced.lost)
                goes_on, record = advanced.goes_on, advanced.record
                if record.state is ActionState.DONE and not advanced.lost:
                    self._complete(record)


async def test_actions_change_what_was_seen_once_and_nothing_else(
    store: Store, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("offpath.operating.job_steps.CHUNK", 2)
    await join(store)
    loop = asyncio.get_running_loop()
    async with App(store=store, clock=clock, auto_start=False) as app:
        await asyncio.to_thread(
            run_state_machine_as_test,
            cast("Any", lambda: ActionMachine(app, store, clock, loop)),
            settings=settings(
                max_examples=12,
                stateful_step_count=25,
                deadline=None,
                database=None,
                phases=(Phase.generate,),
                suppress_health_check=list(HealthCheck),
            ),
        )
