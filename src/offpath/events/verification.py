"""``router verify``: numbered checks of what must hold, from counts that the store made."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Set as AbstractSet

from msgspec import Struct

from offpath.model.route import RouterFacts, RouterRecord


class Check(Struct, frozen=True, kw_only=True):
    """One check. ``fine`` None: it does not apply here."""

    number: int
    name: str
    fine: bool | None
    message: str


def checks_of(
    record: RouterRecord,
    facts: RouterFacts,
    *,
    deliverable: AbstractSet[str] | None,
    most_lag: float,
    own_log: bool = True,
) -> list[Check]:
    """The checks in their order. Numbers are stable: new ones are added at the end.

    ``deliverable``: the routes that have a deliverer; None when only the app knows them.
    """
    found = _checks(record, facts, deliverable, most_lag, own_log)
    return [
        Check(number=number, name=name, fine=fine, message=message)
        for number, (name, fine, message) in enumerate(found, start=1)
    ]


def _checks(
    record: RouterRecord,
    facts: RouterFacts,
    deliverable: AbstractSet[str] | None,
    most_lag: float,
    own_log: bool,
) -> Iterator[tuple[str, bool | None, str]]:
    gate = "closed (master)" if not record.master else "open" if record.open else "closed"
    yield "gates readable", True, f"the gate is {gate}"
    yield _cursors(record, facts) if own_log else _own("cursor not in the future")
    missing = facts.events_passed - facts.events_with_attempt
    yield (
        (
            "one attempt per event passed",
            missing == 0,
            f"{missing} of {facts.events_passed} have none",
        )
        if own_log
        else _own("one attempt per event passed")
    )
    stray = facts.attempts_without_event
    yield (
        ("no attempt without an event", stray == 0, f"{stray} attempts")
        if own_log
        else _own("no attempt without an event")
    )
    ahead = facts.attempts_ahead
    yield "no attempt ahead of its cursor", ahead == 0, f"{ahead} attempts"
    lost = facts.failed_without_letter
    yield "every failed attempt has its dead letter", lost == 0, f"{lost} have none"
    odd = facts.letters_without_failure
    yield "every dead letter has its failed attempt", odd == 0, f"{odd} have none"
    yield _lag(record, facts, most_lag) if own_log else _own("lag")
    yield _routes(record, deliverable)
    letters = facts.open_letters
    yield "no unresolved dead letters", letters == 0, f"{letters} wait: offpath router redrive"


def _own(name: str) -> tuple[str, bool | None, str]:
    return name, None, "does not apply: the router reads a source of its own"


def _cursors(record: RouterRecord, facts: RouterFacts) -> tuple[str, bool | None, str]:
    highest = max((cursor.position for cursor in record.cursors), default=0)
    message = f"furthest cursor {highest}, settled up to {facts.horizon}, head {facts.head}"
    return "cursor not in the future", highest <= max(facts.horizon, facts.head), message


def _lag(record: RouterRecord, facts: RouterFacts, most_lag: float) -> tuple[str, bool | None, str]:
    shown = f"{facts.oldest_lag:.1f} s behind (at most {most_lag:g} s)"
    if facts.head > facts.horizon:
        shown += f"; what is above position {facts.horizon} waits for a writer that is open"
    if not (record.open and record.master):
        return "lag", None, f"does not apply: the gate is closed; {shown}"
    return "lag", facts.oldest_lag <= most_lag, shown


def _routes(
    record: RouterRecord, deliverable: AbstractSet[str] | None
) -> tuple[str, bool | None, str]:
    live = [route.name for route in record.routes if route.enabled and not route.dry_run]
    if deliverable is None:
        message = f"not checked: {len(live)} live, and only the app knows their deliverers"
        return "every live route has a deliverer", None, message
    lacking = sorted(set(live) - deliverable)
    message = f"{len(live)} live" + (
        f", without a deliverer: {', '.join(lacking)}" if lacking else ""
    )
    return "every live route has a deliverer", not lacking, message
