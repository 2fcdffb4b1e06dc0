"""The row locks of the Postgres statements, read from their text, and the order that they keep."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from offpath.store.sql import parse, parts_of
from tests.architecture.sources import ROOT
from tests.architecture.statements import STORE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

KINDS = ("turn", "subject", "key", "message", "gate", "limit", "group", "ledger")
"""The kinds of row, in the order in which a transition may wait for them."""

OF_TABLE = {
    "advisory": "turn",
    "job": "subject",
    "message": "subject",
    "cursor": "subject",
    "letter": "subject",
    "schedule": "subject",
    "job_gate": "gate",
    "limit_key": "limit",
    "job_group": "group",
    "ledger_side": "ledger",
    "ledger_account": "ledger",
}
"""The kind of a table's rows."""
WHEN_ADDED = {"job": "key", "message": "message", "log": "message"}
"""The kind of a table's new rows, where it is not that of known ones."""
OF_STATEMENT = {"lock_holders": "key", "release_keys": "key", "replace_holders": "key"}
"""Statements whose job rows are the holders of the unique keys of new jobs."""

BESIDE = {
    "attempt": "written by the holder of the router's cursor or letter",
    "failure": "written by the transition that ends or rescues the job",
    "gate_watch": "written under the gate's row",
    "ledger_attempt": "written under the account's row",
    "ledger_checkpoint": "written under the turn of checkpoints",
    "ledger_key": "written under the account's row",
    "ledger_leaf": "written under the turn of checkpoints",
    "ledger_link": "written under the account's row",
    "ledger_posting": "written under the account's row",
    "ledger_retired": "written under the turn of checkpoints",
    "ledger_trim": "written under the turn of checkpoints",
    "limit_nudge": "added only; taken in under the limit's row",
    "limit_part": "written with the row of its line",
    "occurrence": "written under the schedule's row",
    "signal": "written under the turn of the signal",
    "step": "written under the job's row",
    "unseen": "added only; taken where it is free",
    "action": "locked alone",
    "run": "locked alone",
    "stat": "locked alone",
    "claim": "locked alone",
    "declaration": "locked alone",
    "endpoint": "locked alone",
    "finding": "locked alone",
    "gate": "the switch of a router, locked alone",
    "migration": "written under the turn of migrations",
    "queue_pause": "locked alone",
    "route": "written with its router",
    "router": "locked alone",
    "task_default": "locked alone",
    "worker": "locked in transactions of its own, or last by a rescue",
}
"""Tables without a place in the order, each with the reason why nobody waits in a circle there."""

HELD = {
    "add_messages": ("lock_accounts",),  # of an operation: the ids are its own
    "admit_jobs": ("pick_held",),
    "change_sides": ("lock_sides",),
    "fired_schedule": ("lock_schedule",),
    "give_up": ("due_blocked", "due_queued"),
    "amend": ("hold_jobs",),
    "redrive": ("hold_jobs",),
    "reopen_gates": ("lock_over_line",),
    "uncount_gates": ("lock_over_line",),
    "wait_again": ("hold_jobs",),
    "note_counted": (
        *(
            "hold_jobs",
            "end_gated",
            "give_up",
            "lock_jobs",
            "rescue",
            "settle",
            "succeed_in_company",
        ),
    ),
    "watch_jobs": ("enqueue", "lock_jobs"),
    "withdraw": ("enqueue",),
    "write_ledger": ("lock_accounts",),
}
"""Statements that wait for nobody when one of these came before: it holds their rows."""

LATE = {
    ("join_roots", "key"): "without keys and gates a new job waits for nobody but its own id",
    ("lock_jobs", "key"): "the holder of a key is known only once a new job has met it",
}
"""Statements that may wait behind a higher kind all the same, each with the reason."""

_QUOTED = re.compile(r"'(?:[^']|'')*'")
_TOUCH = re.compile(
    r"insert\s+into\s+offpath\.(?P<insert>\w+)"
    r"|(?<!for\s)(?<!key\s)(?<!do\s)update\s+offpath\.(?P<update>\w+)"
    r"|delete\s+from\s+offpath\.(?P<delete>\w+)"
    r"|do\s+(?P<conflict>update)\s+set"
    r"|for\s+(?:no\s+key\s+)?(?:update|share)(?:\s+of\s+(?P<of>\w+))?(?P<free>\s+skip\s+locked)?"
    r"|(?P<advisory>pg_advisory_xact_lock)"
)
_FROM = re.compile(r"\boffpath\.(\w+)\b(?!\s*\()(?:\s+(?:as\s+)?(\w+))?")


@dataclass(frozen=True, slots=True)
class Touch:
    """One kind of lock that a statement takes."""

    table: str
    how: str
    """``waits`` for whoever holds a row, takes what is ``free``, or ``adds``."""


def touches(sql: str) -> list[Touch]:
    """The tables that a statement locks or writes, in the order of its text."""
    text = _QUOTED.sub("''", sql.lower())
    matches = list(_TOUCH.finditer(text))
    locked = {_locked(text, one.start(), one["of"]) for one in matches if one[0].startswith("for")}
    found: list[Touch] = []
    for one in matches:
        if one["insert"]:
            found.append(Touch(one["insert"], "adds"))
        elif one["conflict"]:
            found.append(Touch(found[-1].table, "waits"))
        elif one["advisory"]:
            found.append(Touch("advisory", "waits"))
        elif table := one["update"] or one["delete"]:
            if table not in locked:
                found.append(Touch(table, "waits"))
        else:
            how = "free" if one["free"] else "waits"
            found.append(Touch(_locked(text, one.start(), one["of"]), how))
    return found


def _locked(text: str, at: int, alias: str | None) -> str:
    """The table of a ``for update``: that of its SELECT, or of the alias it names."""
    depth, start = 0, at
    while start and depth >= 0:
        start -= 1
        depth += (text[start] == ")") - (text[start] == "(")
    part = _without_inner_brackets(text[start + (depth < 0) : at])
    names = [(found[1], found[2]) for found in _FROM.finditer(part)]
    return next(table for table, short in names if alias is None or alias in {short, table})


def _without_inner_brackets(text: str) -> str:
    kept, depth = [], 0
    for char in text:
        if not depth:
            kept.append(char)  # the bracket itself stays: what is before it is a function
        depth += (char == "(") - (char == ")")
    return "".join(kept)


@cache
def catalogue() -> Mapping[str, tuple[str, tuple[Touch, ...]]]:
    """The text of each Postgres statement, and its locks, by name."""
    paths = sorted((STORE / "postgres").glob("*.sql"))
    texts = {path.name: path.read_text("utf-8") for path in paths}
    parts = parts_of(texts)
    found = [one for name, text in texts.items() for one in parse(text, origin=name, parts=parts)]
    return {one.name: (one.named, tuple(touches(one.named))) for one in found}


def kind_of(statement: str, touch: Touch) -> str | None:
    """The kind of row that a statement touches there; None for rows without a place."""
    if touch.table == "job" and statement in OF_STATEMENT:
        return OF_STATEMENT[statement]
    added = WHEN_ADDED.get(touch.table) if touch.how == "adds" else None
    return added or OF_TABLE.get(touch.table)


def transactions(sent: Iterable[str]) -> Iterator[list[str]]:
    """The statements of each transaction, in the order in which a store sent them."""
    inside: list[str] | None = None
    for name in sent:
        if name == "begin":
            if inside:
                yield inside
            inside = []
        elif name == "commit":
            yield inside or []
            inside = None
        elif inside is None:
            yield [name]
        else:
            inside.append(name)


def disorder(transaction: Sequence[str]) -> list[str]:
    """The statements that may wait for a row behind one of a higher kind, with no reason given."""
    found: list[str] = []
    first: dict[int, str] = {}
    for place, name in enumerate(transaction):
        before = transaction[:place]
        for touch in catalogue()[name][1]:
            kind = kind_of(name, touch)
            if kind is None or touch.how == "free":
                continue
            rank = KINDS.index(kind)
            if not set(HELD.get(name, ())) & set(before):
                found += [
                    f"{name} ({kind}) behind {other} ({KINDS[above]})"
                    for above, other in first.items()
                    if above > rank and (name, KINDS[above]) not in LATE
                ]
            first.setdefault(rank, name)
    return found


def table(sent: Mapping[str, Iterable[Sequence[str]]]) -> dict[str, dict[str, set[str]]]:
    """The kinds of row that each method locks, and how, from the transactions that it sent."""
    found: dict[str, dict[str, set[str]]] = {}
    for method, transactions_sent in sent.items():
        row = found.setdefault(method, {kind: set() for kind in KINDS})
        for name in (one for transaction in transactions_sent for one in transaction):
            for touch in catalogue()[name][1]:
                if kind := kind_of(name, touch):
                    row[kind].add(touch.how)
    return {method: row for method, row in found.items() if any(row.values())}


def written() -> dict[str, dict[str, set[str]]]:
    """The table in the architecture document."""
    text = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    part = text.partition("### One lock order")[2].partition("\n### ")[0].partition("\n## ")[0]
    rows = [line[1:-1].split("|") for line in part.splitlines() if line.startswith("| `")]
    return {
        name.strip(" `"): {kind: set(cell.split()) for kind, cell in zip(KINDS, cells, strict=True)}
        for name, *cells in rows
    }


def printed(found: Mapping[str, Mapping[str, set[str]]]) -> str:
    """The rows of the table as the document has them."""
    return "\n".join(
        f"| `{method}` | " + " | ".join(" ".join(sorted(row[kind])) for kind in KINDS) + " |"
        for method, row in sorted(found.items())
    )
