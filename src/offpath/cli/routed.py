"""What ``offpath router`` prints."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import click
import msgspec

from offpath.cli import output
from offpath.cli.values import Cell
from offpath.model.redact import redact, redact_text
from offpath.model.tally import Verdict

if TYPE_CHECKING:
    from offpath.events.operating import RouterStatus
    from offpath.events.running import RouterRun
    from offpath.events.verifying import Check
    from offpath.model.route import Attempt, Letter, Route, RouterRecord
    from offpath.model.tally import Tally

_MARKS = {True: "ok", False: "FAILED", None: "-"}


def gate(record: RouterRecord) -> str:
    """Whether it runs, and which gate is closed if not."""
    if not record.master:
        return "closed (master)" if record.open else "closed (both)"
    return "open" if record.open else "closed"


def _lag(found: RouterStatus) -> str:
    return output.short(timedelta(seconds=found.facts.oldest_lag))


def print_list(found: Sequence[RouterStatus], *, as_json: bool) -> None:
    """Print a line for each router."""
    if as_json:
        output.print_json({"items": [_status(one) for one in found]})
        return
    rows = [
        (
            one.record.name,
            one.record.domain,
            gate(one.record),
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
    output.print_table(columns, rows, empty=empty)


def print_status(found: Sequence[RouterStatus], *, as_json: bool, single: bool) -> None:
    """Print how routers stand."""
    if as_json:
        told = [_status(one) for one in found]
        output.print_json(told[0] if single else {"items": told})
        return
    for number, one in enumerate(found):
        click.echo("\n" if number else "", nl=False)
        _print_status(one)
    if not found:
        print_list(found, as_json=False)


def _print_status(one: RouterStatus) -> None:
    record, facts = one.record, one.facts
    lines: dict[str, Cell] = {
        "router": record.name,
        "domain": record.domain,
        "gate": gate(record) + ("" if record.master else ": offpath router enable --master"),
        "log": f"settled up to {facts.horizon}, head {facts.head}",
        "behind": _lag(one),
        "letters": f"{facts.open_letters} unresolved",
        "waiting for": ", ".join(one.waiting_for) or "nobody",
    }
    for name, value in lines.items():
        click.echo(f"{name:>11}  {output.clean(str(value))}")
    click.echo()
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
    output.print_table(columns, cursors, empty="it has no cursors")
    click.echo()
    routes = [_route_row(route) for route in record.routes]
    output.print_table(("route", "type", "stream", "to", "switch"), routes, empty="no routes")


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


def print_run(done: RouterRun, *, as_json: bool) -> None:
    """Print what a run did."""
    if as_json:
        plain: dict[str, Any] = msgspec.to_builtins(done)
        tally = plain.pop("tally")
        fine = done.verdict in {Verdict.CLEAN, Verdict.EMPTY}
        output.print_json(
            {
                "ok": fine,
                "verdict": done.verdict.value,
                **plain,
                "counts": done.counts,
                "buckets": tally.get("buckets", {}),
            }
        )
        return
    counts = ", ".join(f"{number} {name}" for name, number in done.counts.items())
    why = ", ".join(filter(None, (_stopped(done), counts))) or "nothing was due"
    click.echo(f"{output.clean(done.router)}: {done.verdict.value} ({why}), {done.passed} passed")
    for event in done.failed:
        click.echo(f"dead letter: event {event}")
    if done.failed:
        click.echo(f"see: offpath router letters {output.clean(done.router)}", err=True)
    if done.waiting_for:
        click.echo(f"waiting for: {', '.join(map(output.clean, done.waiting_for))}")
    if done.more:
        click.echo("there is more: run it again", err=True)


def _stopped(done: RouterRun) -> str | None:
    """Why it did nothing, or less than all, in words."""
    if done.stopped == "busy":
        few = ", ".join(map(str, done.busy))
        return f"another run has the cursor of partition {few}"
    if done.stopped == "gate: master":
        return "the master gate is closed: offpath router enable --master"
    if done.stopped:
        return f"its gate is closed: offpath router enable {output.clean(done.router)}"
    return None


def print_verified(name: str, checked: Sequence[Check], *, as_json: bool) -> None:
    """Print the numbered checks."""
    failed = [one.number for one in checked if one.fine is False]
    if as_json:
        output.print_json({"ok": not failed, "router": name, "items": checked})
        return
    rows = [(one.number, _MARKS[one.fine], one.name, one.message) for one in checked]
    output.print_table(("no", "", "check", "found"), rows, empty="no checks")
    click.echo(f"{len(failed)} failed" if failed else "all hold")


def print_switched(
    record: RouterRecord | None, route: str | None, *, on: bool, as_json: bool
) -> None:
    """Print how a gate or a route is now."""
    if record is None:
        if as_json:
            output.print_json({"master": on})
        else:
            click.echo(f"the master gate is {'open' if on else 'closed'}")
        return
    if as_json:
        output.print_json(record)
        return
    if route is None:
        click.echo(
            f"{output.clean(record.name)}: its gate is {'open' if record.open else 'closed'}"
        )
    else:
        switch = next(_switch(one) for one in record.routes if one.name == route)
        click.echo(f"{output.clean(record.name)}: route {output.clean(route)} is {switch}")
    if on and not record.master:
        click.echo("the master gate is closed: offpath router enable --master", err=True)
    if on and route is not None and not record.open:
        click.echo(f"its gate is closed: offpath router enable {record.name}", err=True)


def print_replayed(name: str, tally: Tally, asked: Sequence[str], *, as_json: bool) -> list[str]:
    """Print what a replay did; returns the letters asked for that were none to replay."""
    seen = {one for ids in tally.buckets.values() for one in ids}
    left = [one for one in asked if one not in seen]
    if as_json:
        told = {"router": name, "counts": tally.counts, "buckets": tally.buckets}
        output.print_json({**told, "unchanged": left})
        return left
    for bucket, ids in tally.buckets.items():
        for one in ids:
            click.echo(f"{one}  {bucket}")
    for one in left:
        click.echo(f"{output.clean(one)}  left alone: unknown, or resolved before")
    counts = ", ".join(f"{number} {bucket}" for bucket, number in tally.counts.items())
    click.echo(counts or "there was no dead letter to replay")
    return left


def print_redone(name: str, tally: Tally, *, as_json: bool) -> None:
    """Print what deciding again did."""
    if as_json:
        told = {"router": name, "counts": tally.counts, "buckets": tally.buckets}
        output.print_json({**told, "stopped": tally.skipped, "more": tally.more})
        return
    if tally.skipped is not None:
        click.echo(
            f"{output.clean(name)}: nothing was done: {output.clean(tally.skipped)} is closed"
        )
        return
    counts = ", ".join(f"{number} {bucket}" for bucket, number in tally.counts.items())
    click.echo(f"{output.clean(name)}: {counts or 'no event was only logged'}")
    if tally.more:
        click.echo("more: repeat it", err=True)


def print_letter_page(found: Sequence[Letter], limit: int, *, as_json: bool) -> None:
    """Print a page of dead letters without their payloads."""
    following = found[-1].event.position if len(found) >= limit else None
    if as_json:
        output.print_json({"items": [_letter(one) for one in found], "next": following})
        return
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
    output.print_table(columns, rows, empty="there are no such dead letters")
    if following is not None:
        click.echo(f"more: add --after {following}", err=True)


def print_letters(found: Sequence[Letter], asked: Sequence[str], *, as_json: bool) -> None:
    """Print dead letters whole, secrets hidden."""
    left = [one for one in asked if one not in {letter.id for letter in found}]
    if as_json:
        output.print_json({"items": [_letter(one, whole=True) for one in found], "unknown": left})
        return
    for one in found:
        _print_letter(one)
    for unknown in left:
        click.echo(f"{output.clean(unknown)}  unknown", err=True)


def _print_letter(one: Letter) -> None:
    told = _letter(one, whole=True)
    lines: dict[str, Cell] = {
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
        "detail": told["detail"] or "-",
        "written": output.when(one.created_at),
        "resolved": output.when(one.resolved_at),
        "resolution": one.resolution or "-",
        "payload": msgspec.json.encode(told["event"]["payload"]).decode(),
    }
    for name, value in lines.items():
        click.echo(f"{name:>10}  {output.clean(str(value))}")


def _letter(one: Letter, *, whole: bool = False) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(one)
    plain["detail"] = redact_text(one.detail)
    event: dict[str, Any] = plain["event"]
    event.pop("decided", None)
    payload = event.pop("payload")
    if whole:
        event["payload"] = redact(output.decoded(payload))
    return plain


def print_attempts(found: Sequence[Attempt], limit: int, *, as_json: bool) -> None:
    """Print attempts in the log's order."""
    last = found[-1] if len(found) >= limit else None
    following = None if last is None else f"{last.position}:{last.number}"
    if as_json:
        output.print_json({"items": [_attempt(one) for one in found], "next": following})
        return
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
    output.print_table(columns, rows, empty="there are no such attempts")
    if following is not None:
        click.echo(f"more: add --after {following}", err=True)


def _attempt(one: Attempt) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(one)
    plain["detail"] = redact_text(one.detail) if one.detail else None
    plain["key"] = one.key
    return plain
