"""Gates as they are looked at: what they watch, and what they have counted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from offpath.model.gate import Counting, GateRecord, GateState
from offpath.store.programs.answers import GateRow
from offpath.store.programs.dialect import Dialect, Steps, one
from offpath.store.programs.instants import readable

_texts: Final = msgspec.json.Decoder(tuple[str, ...]).decode


def listed(d: Dialect, ids: Sequence[str]) -> Steps[list[GateRecord]]:
    """The gates of these ids that exist."""
    rows = yield from one(d.sql["gates"](ids=d.ids(ids)))
    return [_record(GateRow(*row)) for row in rows]


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
