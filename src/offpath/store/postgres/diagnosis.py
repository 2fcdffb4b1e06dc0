"""The findings of a Postgres server about its state, as far as jobs depend on it."""

from __future__ import annotations

from typing import Final

from offpath.store.programs.diagnosis import odd_rows
from offpath.store.programs.dialect import Dialect, Rows, Send, Steps
from offpath.store.protocol import Finding, Level
from offpath.store.wakes import WakeBus

MANY_DEAD: Final = 10_000
"""Fewer dead rows need no warning: a busy fleet makes as many in a second."""
REMEDY: Final = "set each to where its rows go, with setval, while nothing writes"
"""Behind counters that give what is there already."""


def diagnose(d: Dialect, *, direct: bool, bus: WakeBus | None, schema: str) -> Steps[list[Finding]]:
    """Look at settings, long transactions, dead rows, and rows that should not be."""
    names = ("server_facts", "collation", "old_transactions", "dead_rows")
    facts, sorting, old, dead = yield Send(tuple(d.sql[name]() for name in names))
    return [
        _server(facts),
        _durability(facts),
        _listening(direct=direct) if bus is None else _heard(bus),
        _collation(sorting),
        _old_transactions(old),
        _dead_rows(dead, schema),
        _vacuum(facts, schema),
        *(yield from odd_rows(d, REMEDY)),
    ]


def _fine(name: str, message: str) -> Finding:
    return Finding(name=name, level=Level.FINE, message=message)


def _server(facts: Rows) -> Finding:
    return _fine("postgres", f"Postgres {facts[0][0]}, max_connections {facts[0][3]}")


def _durability(facts: Rows) -> Finding:
    commit, fsync = facts[0][1], facts[0][2]
    message = f"synchronous_commit is {commit}, fsync is {fsync}"
    if commit != "off" and fsync == "on":
        return _fine("durability", message)
    advice = "what was acknowledged can be lost when the server crashes"
    return Finding(name="durability", level=Level.WARNING, message=f"{message}: {advice}")


def _listening(*, direct: bool) -> Finding:
    if direct:
        return _fine("listening", "a direct connection listens and shows that workers live")
    message = (
        "no connection can listen (a pooler in transaction mode, or none to spare): work is found "
        "by polling and a dead worker by its lease. Name a direct one with ?offpath_notify_url="
    )
    return Finding(name="listening", level=Level.WARNING, message=message)


def _heard(bus: WakeBus) -> Finding:
    if bus.hears:
        return _fine("listening", f"wake-ups come by {bus.shown}")
    message = f"{bus.shown} carries no wake-ups now: work is found by polling"
    return Finding(name="listening", level=Level.WARNING, message=message)


def _collation(rows: Rows) -> Finding:
    ((database, made, actual),) = rows
    if made == actual:
        return _fine("collation", "the order of texts is as it was when the database was made")
    message = (
        f"texts were ordered by version {made} of the system's collation, which is "
        f"{actual or 'gone'} now: indexes of your own tables may miss rows, unique keys among "
        "them (offpath's do not). While nothing writes, run: "
        f'reindex database "{database}"; alter database "{database}" refresh collation version'
    )
    return Finding(name="collation", level=Level.PROBLEM, message=message)


def _old_transactions(rows: Rows) -> Finding:
    if not rows:
        return _fine("transactions", "none is open for more than a minute")
    sessions = ", ".join(
        f"pid {pid} of {user} ({state}, {age} s)" for pid, user, state, age in rows
    )
    message = f"open for more than a minute, so dead rows stay: {sessions}"
    return Finding(name="transactions", level=Level.WARNING, message=message)


def _dead_rows(rows: Rows, schema: str) -> Finding:
    live, dead = rows[0] if rows else (0, 0)
    message = f"{dead} dead beside {live} live ones"
    if dead < max(MANY_DEAD, live):
        return _fine("dead rows", message)
    advice = f"leases and reads walk over them; run: vacuum analyze {schema}.job"
    return Finding(name="dead rows", level=Level.WARNING, message=f"{message}: {advice}")


def _vacuum(facts: Rows, schema: str) -> Finding:
    if facts[0][4]:
        return _fine("vacuum", "autovacuum removes dead rows")
    message = (
        "autovacuum is off, so dead rows stay and every lease walks over more of them: turn it on "
        f"for the server or the table, or run vacuum {schema}.job before they outnumber the living"
    )
    return Finding(name="vacuum", level=Level.WARNING, message=message)
