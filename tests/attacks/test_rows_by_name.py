"""Whoever names a row that somebody else wrote wrong is answered, or told so by an error of ours.

No row stops anybody else (``test_bad_rows.py``); this is about the row itself. Each column of a row
gets each value that its type allows and we do not write, and each call that names the row is made.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from typing import Final

import pytest

from offpath.errors import OffpathError, StoreRejected
from offpath.model.effects import Effects
from offpath.model.job import JobState
from offpath.model.settlement import Succeeded
from offpath.store.protocol import Store
from tests.attacks.bad_rows import VALUES, columns_of, lifted, taken
from tests.attacks.scenes import TABLES, Call, Place, ending, with_children
from tests.attacks.service import name_of
from tests.conformance.backends import Backend
from tests.conformance.builders import (
    add,
    join,
    new_job,
    record,
    take,
    uid,
)
from tests.conformance.workflow_builders import fates, gate_on, hold
from tests.integration.scale import CAMPAIGN


@pytest.fixture(params=("sqlite", "postgres"))
def backend_name(request: pytest.FixtureRequest) -> str:
    """The backends on which rows can be written by hand."""
    return str(request.param)


_USUAL: Final = {
    "null", "-1", "'foreign'", "'[1, null]'", "'5'", "'infinity'", "'20000-01-01'", str(2**62),
    str(2**63 - 1), str(2**31 - 1), "'NaN'",
}  # fmt: skip
CASES = [(table, scene) for table, scenes in TABLES.items() for scene in scenes]


@pytest.mark.parametrize(("table", "scene"), CASES)
async def test_who_names_a_wrong_row_is_answered_or_told_by_an_error_of_ours(
    store: Store, backend: Backend, table: str, scene: str
) -> None:
    name = name_of(backend.name, table)
    raw: list[str] = []
    with lifted(backend, [name]):
        for column, value in _values(backend, name, CASES.index((table, scene))):
            _sweep(backend)
            calls = await getattr(Place(store), scene)()
            if _spoil(backend, name, column, value):
                found = [f"{label}: {text}" for label, text in await _raw(calls)]
                raw += [f"{column} = {value[:20]}: {each}" for each in found]
    assert not raw, "\n".join(raw)


async def _raw(calls: Mapping[str, Call]) -> list[tuple[str, str]]:
    """The calls that raise what is not ours, each with the text."""
    found: list[tuple[str, str]] = []
    for label, call in calls.items():
        try:
            await asyncio.wait_for(call(), 30)
        except OffpathError:
            pass
        except Exception as error:
            found.append((label, f"{error!r:.200}"))
    return found


def _values(backend: Backend, table: str, turn: int) -> Iterator[tuple[str, str]]:
    """Each column with each value that is tried in it; in a plain run one of the usual ones, by
    turns, so that the scenes of a table try different ones.
    """
    for place, (column, kind) in enumerate(columns_of(backend, table).items()):
        values = VALUES[backend.name].get(kind, ())
        usual = [value for value in values if value in _USUAL]
        start = (turn + place) % len(usual) if usual else 0
        for value in values if CAMPAIGN else usual[start : start + 1]:
            yield column, value


def _spoil(backend: Backend, table: str, column: str, value: str) -> bool:
    """Write a value into a column of every row; False where the database itself refuses it."""
    kind = columns_of(backend, table)[column]
    typed = f"{value}::{kind}" if backend.name == "postgres" else value
    return taken(backend, [f'update {table} set "{column}" = {typed}']) == 1


def _sweep(backend: Backend) -> None:
    if backend.name == "postgres":
        backend.sweep()
    else:
        tables = [*backend.tables(), "sqlite_sequence"]  # numbers begin anew
        backend.execute_all([f"delete from {table}" for table in tables])


async def test_who_joins_a_gate_of_no_known_state_is_told_and_stops_nobody(
    store: Store, backend: Backend
) -> None:
    await join(store)
    gate, good = gate_on(uid(1), timeout=60), gate_on(uid(1), timeout=60)
    await hold(store, gate)
    await hold(store, good)
    with lifted(backend, [name_of(backend.name, "job_gate")]):
        _foreign(backend, "job_gate", "state", gate.id)
        late = new_job(gate=gate.id)
        with pytest.raises(StoreRejected, match="'foreign', which this version does not know"):
            await store.commit(Effects(jobs=(late,)))
        assert not await store.get([late.id])
        found = {each.id: each for each in await store.gates([gate.id, good.id])}
        assert found[gate.id].unreadable == "state: foreign"
        assert found[good.id].unreadable is None
        # in one batch of ends, those of others are written
        await add(store)
        await add(store)
        first, second = await take(store)
        answers = await store.settle([with_children(first, late), ending(second, Succeeded())])
        assert isinstance(answers[0].error, StoreRejected)
        assert answers[1].error is None
        assert (await record(store, second.id)).state is JobState.SUCCEEDED
        await store.commit(Effects(jobs=(new_job(gate=good.id),)))


async def test_the_watched_jobs_of_a_gate_that_counts_in_no_known_way_end(
    store: Store, backend: Backend
) -> None:
    await join(store)
    watched = await add(store)
    gate, good = gate_on(watched), gate_on(watched)
    (stuck,), (free,) = await hold(store, gate), await hold(store, good)
    with lifted(backend, [name_of(backend.name, "job_gate")]):
        _foreign(backend, "job_gate", "counting", gate.id)
        (held,) = await take(store)
        (answer,) = await store.settle([ending(held, Succeeded())])
        assert answer.error is None
        await store.expire_blocked(limit=10)
        assert await fates(store, watched, free) == [("succeeded", None), ("queued", None)]
        assert (await record(store, stuck)).state is JobState.BLOCKED
        (found,) = await store.gates([gate.id])
        assert found.unreadable == "counting: foreign"


async def test_one_group_of_no_known_policy_hides_no_other(store: Store, backend: Backend) -> None:
    groups = [await add(store) for _ in range(2)]
    for group in groups:
        await store.commit(Effects(jobs=(new_job(group_id=group, parent=group),)))
    with lifted(backend, [name_of(backend.name, "job_group")]):
        _foreign(backend, "job_group", "policy", groups[0])
        found = {each.id: each for each in await store.groups(groups)}
        assert [found[group].open for group in groups] == [2, 2]


def _foreign(backend: Backend, table: str, column: str, row: str) -> None:
    name = name_of(backend.name, table)
    assert taken(backend, [f"update {name} set {column} = 'foreign' where id = '{row}'"]) == 1
