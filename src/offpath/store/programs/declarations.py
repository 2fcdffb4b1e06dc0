"""Definitions that the code of live processes declares."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from offpath.model.declaration import KEEP, LIVE, Declaration
from offpath.store.programs.answers import DeclarationRow
from offpath.store.programs.dialect import Dialect, Send, Steps, one
from offpath.store.programs.instants import readable


class _Declared(msgspec.Struct):
    """A row that ``note_declarations`` takes."""

    name: str
    fingerprint: str


def declare(d: Dialect, kind: str, definitions: Mapping[str, str]) -> Steps[frozenset[str]]:
    """Note what is defined; the names of those that a newer definition overrules."""
    if not definitions:
        return frozenset()
    batch = d.batch([_Declared(name, definitions[name]) for name in sorted(definitions)])
    # The question comes second: a statement does not see what it has itself written.
    _, rows, _ = yield Send(
        (
            d.sql["note_declarations"](kind=kind, batch=batch, now=d.now),
            d.sql["overruled_declarations"](kind=kind, batch=batch, live=d.span(LIVE), now=d.now),
            d.sql["forget_declarations"](kind=kind, keep=d.span(KEEP), now=d.now),
        ),
        last=True,
    )
    return frozenset(name for (name,) in rows)


def listed(d: Dialect, kind: str) -> Steps[list[Declaration]]:
    """The recent declarations, by name, the newest first."""
    query = d.sql["live_declarations"](kind=kind, live=d.span(LIVE), now=d.now)
    return [_record(DeclarationRow._make(row)) for row in (yield from one(query))]


def _record(row: DeclarationRow) -> Declaration:
    return Declaration(
        name=row.name,
        fingerprint=row.fingerprint,
        first_seen=readable(row.first_seen),
        last_seen=readable(row.last_seen),
    )
