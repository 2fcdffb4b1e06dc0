"""The views of routers: how they stand, what a pass did, their letters and attempts."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import msgspec

from offpath.cli import output
from offpath.cli.values import (
    DEGRADED,
    DONE,
    EXITS,
    FAILED,
    NOT_FOUND,
    Cell,
    Fields,
    Listing,
    Part,
    Said,
    Shown,
    Table,
    next_of,
)
from offpath.model.redact import redact, redact_text
from offpath.model.tally import Verdict
from offpath.operating.documents.routers import router_state

if TYPE_CHECKING:
    from offpath.events.router_run import RouterRun
    from offpath.events.stored_router import RouterStatus
    from offpath.events.verification import Check
    from offpath.model.route import Attempt, Letter, Route, RouterRecord
    from offpath.model.tally import Tally

_MARKS = {True: "ok", False: "FAILED", None: "-"}


def _lag(found: RouterStatus) -> str:
    return output.short(timedelta(seconds=found.facts.oldest_lag))


def router_list(found: Sequence[RouterStatus]) -> Listing:
    """A line for each router."""
    return Listing([_status(one) for one in found], _router_table(found))


def _router_table(found: Sequence[RouterStatus]) -> Table:
    rows = [
        (
            one.record.name,
            one.record.domain,
            router_state(one.record),
            len(one.record.routes),
            one.record.partitions,
            sum(cursor.passed for cursor in one.record.cursors),
            _lag(one),
            one.facts.open_letters,
        )
        for one in found
    ]
    columns = ("router", "domain", "gate", "routes", "partitions", "passed", "behind", "letters")
    empty = "the store has no routers: the first run of the app that declares one puts it there"
    return Table(columns, rows, empty)


def router_status(found: Sequence[RouterStatus], *, single: bool) -> Shown:
    """The state of routers."""
    documents = [_status(one) for one in found]
    parts = [part for one in found for part in ("", *_status_parts(one))][1:]
    document = documents[0] if single else {"items": documents}
    return Shown(document, parts or [_router_table(found)])


def _status_parts(one: RouterStatus) -> list[Part]:
    record, facts = one.record, one.facts
    closed = "" if record.master else ": offpath router enable --master"
    fields: dict[str, Cell] = {
        "router": record.name,
        "domain": record.domain,
        "gate": router_state(record) + closed,
        "log": f"settled up to {facts.horizon}, head {facts.head}",
        "behind": _lag(one),
        "letters": f"{facts.open_letters} unresolved",
        "waiting for": ", ".join(one.waiting_for) or "nobody",
    }
    cursors = [
        (
            cursor.partition,
            cursor.position,
            cursor.passed,
            output.ago(cursor.ran_at) or "never",
            "yes" if cursor.holder else "no",
            _summary(cursor.summary),
        )
        for cursor in record.cursors
    ]
    columns = ("partition", "position", "passed", "ran", "running", "last run")
    routes = [_route_row(route) for route in record.routes]
    return [
        Fields(fields),
        "",
        Table(columns, cursors, "it has no cursors"),
        "",
        Table(("route", "type", "stream", "to", "switch"), routes, "no routes"),
    ]


def _summary(text: str | None) -> str:
    counts = output.decoded(text)
    if not isinstance(counts, dict):
        return text or ""
    return ", ".join(f"{number} {status}" for status, number in counts.items())


def _route_row(route: Route) -> tuple[Cell, ...]:
    return route.name, route.type, route.stream, route.deliver or "-", _switch(route)


def _switch(route: Route) -> str:
    if not route.enabled:
        return "disabled"
    return "dry run" if route.dry_run else "live"


def _status(one: RouterStatus) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(one.record)
    for cursor in plain["cursors"]:
        cursor["summary"] = output.decoded(cursor["summary"])
    facts = msgspec.to_builtins(one.facts)
    return {**plain, "waiting_for": one.waiting_for, "facts": facts}


def router_run(done: RouterRun) -> Shown:
    """The outcome of a run."""
    plain: dict[str, Any] = msgspec.to_builtins(done)
    tally = plain.pop("tally")
    document = {
        "ok": done.verdict in {Verdict.CLEAN, Verdict.EMPTY},
        "verdict": done.verdict.value,
        **plain,
        "counts": done.counts,
        "buckets": tally.get("buckets", {}),
    }
    counts = ", ".join(f"{number} {name}" for name, number in done.counts.items())
    why = ", ".join(filter(None, (_stopped(done), counts))) or "nothing was due"
    lines = [f"{done.router}: {done.verdict.value} ({why}), {done.passed} passed"]
    lines += [f"dead letter: event {event}" for event in done.failed]
    notes = [f"see: offpath router letters {done.router}"] if done.failed else []
    if done.waiting_for:
        lines.append(f"waiting for: {', '.join(done.waiting_for)}")
    if done.more:
        notes.append("there is more: run it again")
    return Shown(document, lines, notes, EXITS[done.verdict])


def _stopped(done: RouterRun) -> str | None:
    """The reason why a run did nothing, or less than all."""
    if done.stopped == "busy":
        few = ", ".join(map(str, done.busy))
        return f"another run has the cursor of partition {few}"
    if done.stopped == "gate: master":
        return "the master gate is closed: offpath router enable --master"
    if done.stopped:
        return f"its gate is closed: offpath router enable {done.router}"
    return None


def router_checks(name: str, checked: Sequence[Check]) -> Shown:
    """The numbered checks."""
    failed = [one.number for one in checked if one.fine is False]
    rows = [(one.number, _MARKS[one.fine], one.name, one.message) for one in checked]
    table = Table(("no", "", "check", "found"), rows, "no checks")
    return Shown(
        {"ok": not failed, "router": name, "items": checked},
        [table, f"{len(failed)} failed" if failed else "all hold"],
        exit=FAILED if failed else DONE,
    )


def router_switched(record: RouterRecord, route: str | None, *, on: bool) -> Said:
    """The state of a gate or a route after it was switched."""
    if route is None:
        text = f"{record.name}: its gate is {'open' if record.open else 'closed'}"
    else:
        switch = next(_switch(one) for one in record.routes if one.name == route)
        text = f"{record.name}: route {route} is {switch}"
    notes = []
    if on and not record.master:
        notes.append("the master gate is closed: offpath router enable --master")
    if on and route is not None and not record.open:
        notes.append(f"its gate is closed: offpath router enable {record.name}")
    return Said(record, text, notes)


def letters_redriven(name: str, tally: Tally, asked: Sequence[str]) -> Shown:
    """The outcome of a redrive, and the given letters that could not be redriven."""
    seen = {one for ids in tally.buckets.values() for one in ids}
    left = [one for one in asked if one not in seen]
    counts = {"router": name, "counts": tally.counts, "buckets": tally.buckets}
    lines = [f"{one}  {bucket}" for bucket, ids in tally.buckets.items() for one in ids]
    lines += [f"{one}  left alone: unknown, or resolved before" for one in left]
    total = ", ".join(f"{number} {bucket}" for bucket, number in tally.counts.items())
    lines.append(total or "there was no dead letter to redrive")
    none = bool(asked) and len(left) == len(asked)
    return Shown({**counts, "unchanged": left}, lines, exit=FAILED if none else _exit(tally))


def router_redone(name: str, tally: Tally) -> Shown:
    """The outcome of deciding again."""
    counts = ", ".join(f"{number} {bucket}" for bucket, number in tally.counts.items())
    text = f"{name}: {counts or 'no event was only logged'}"
    if tally.skipped is not None:
        text = f"{name}: nothing was done: {tally.skipped} is closed"
    more = {"stopped": tally.skipped, "more": tally.more}
    document = {"router": name, "counts": tally.counts, "buckets": tally.buckets, **more}
    notes = ["more: repeat it"] if tally.more and tally.skipped is None else []
    return Shown(document, [text], notes, _exit(tally))


def _exit(tally: Tally) -> int:
    failed = tally.counts.get("failed", 0)
    return DONE if not failed else FAILED if failed == tally.total else DEGRADED


def letter_page(found: Sequence[Letter], limit: int) -> Listing:
    """A page of dead letters without their payloads."""
    rows = [
        (
            one.id,
            one.route,
            one.event.type,
            one.event.stream,
            one.number,
            output.ago(one.created_at),
            one.resolution or "",
            f"{one.reason}: {redact_text(one.detail[:100])}",
        )
        for one in found
    ]
    columns = ("id", "route", "type", "stream", "attempts", "written", "resolution", "reason")
    table = Table(columns, rows, "there are no such dead letters")
    following = next_of(found, limit, lambda one: one.event.position)
    return Listing([_letter(one) for one in found], table, following)


def letters_shown(found: Sequence[Letter], asked: Sequence[str]) -> Shown:
    """Dead letters whole, secrets hidden."""
    left = [one for one in asked if one not in {letter.id for letter in found}]
    documents = [_letter(one, whole=True) for one in found]
    fields = [_fields(one, document) for one, document in zip(found, documents, strict=True)]
    notes = [f"{unknown}  unknown" for unknown in left]
    return Shown({"items": documents, "unknown": left}, fields, notes, DONE if found else NOT_FOUND)


def _fields(one: Letter, document: dict[str, Any]) -> Fields:
    return Fields(
        {
            "letter": one.id,
            "router": one.router,
            "route": one.route,
            "event": one.event.id,
            "position": one.event.position,
            "domain": one.event.domain,
            "type": one.event.type,
            "stream": one.event.stream,
            "key": one.event.key or "-",
            "at": output.when(one.event.at),
            "attempts": one.number,
            "reason": one.reason,
            "detail": document["detail"] or "-",
            "written": output.when(one.created_at),
            "resolved": output.when(one.resolved_at),
            "resolution": one.resolution or "-",
            "payload": output.json_text(document["event"]["payload"]),
        }
    )


def _letter(one: Letter, *, whole: bool = False) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(one)
    plain["detail"] = redact_text(one.detail)
    event: dict[str, Any] = plain["event"]
    event.pop("decided", None)
    payload = event.pop("payload")
    if whole:
        event["payload"] = redact(output.decoded(payload))
    return plain


def attempt_page(found: Sequence[Attempt], limit: int) -> Listing:
    """Attempts in the log's order."""
    rows = [
        (
            one.position,
            one.event,
            one.route,
            one.status,
            one.number,
            output.ago(one.at),
            redact_text(one.detail or ""),
        )
        for one in found
    ]
    columns = ("position", "event", "route", "status", "number", "at", "detail")
    following = next_of(found, limit, lambda one: f"{one.position}:{one.number}")
    table = Table(columns, rows, "there are no such attempts")
    return Listing([_attempt(one) for one in found], table, following)


def _attempt(one: Attempt) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(one)
    plain["detail"] = redact_text(one.detail) if one.detail else None
    plain["key"] = one.key
    return plain
