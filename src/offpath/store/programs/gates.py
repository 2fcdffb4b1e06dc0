"""Gates as they are looked at: what they watch and have counted, and what follows from it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from offpath.model.gate import Counting, GateRecord, GateState, verdict
from offpath.store.programs.answers import GateRow
from offpath.store.programs.dialect import Dialect, Steps, one
from offpath.store.programs.instants import readable
from offpath.store.refusals import unknown_gate
from offpath.store.sql import Row
from offpath.store.unreadable import Shape, mark

_texts: Final = msgspec.json.Decoder(tuple[str, ...]).decode
_KNOWN: Final = frozenset(Counting)


def listed(d: Dialect, ids: Sequence[str]) -> Steps[list[GateRecord]]:
    """The gates of these ids that exist."""
    return _RECORDS.all((yield from one(d.sql["gates"](ids=d.ids(ids)))))


def watched(d: Dialect, job_id: str) -> Steps[list[str]]:
    """The jobs that the gate of this one watches, in their order."""
    return [job for (job,) in (yield from one(d.sql["watched_for"](id=job_id)))]


def decided(rows: Iterable[Row]) -> list[tuple[str, GateState]]:
    """The gates that are decided by these counts.

    One that counts in a way which nobody knows, written by hand, stays as it is: the jobs that it
    watches end all the same.
    """
    states = [
        (
            gate,
            verdict(
                need=need, of=Counting(counting), total=total, succeeded=succeeded, failed=failed
            ),
        )
        for gate, need, counting, total, succeeded, failed in rows
        if counting in _KNOWN
    ]
    return [(gate, state) for gate, state in states if state is not GateState.OPEN]


def state_of(gate: str, state: str) -> GateState:
    """The state of a gate that somebody names. Raises ``StoreRejected`` for one written by hand."""
    try:
        return GateState(state)
    except ValueError:
        raise unknown_gate(gate, state) from None


def _record(row: GateRow) -> GateRecord:
    return GateRecord(
        id=row.id,
        state=GateState(row.state),
        need=row.need,
        of=Counting(row.counting),
        succeeded=row.succeeded,
        failed=row.failed,
        on=_texts(row.on),
        deadline=readable(row.deadline),
    )


_RECORDS: Final = Shape.of(
    GateRow("", "open", 0, "succeeded", 0, 0, "[]", None),
    _record,
    lambda gate, bad: replace(gate, unreadable=mark(bad)),
)
