"""The route that an event takes: pure, so that a dry run decides what a live run would."""

from __future__ import annotations

from collections.abc import Sequence

from offpath.model.route import NO_ROUTE, Attempt, AttemptStatus, LogEvent, Route, RouterRecord


def decide(event: LogEvent, routes: Sequence[Route], *, gates: RouterRecord) -> Attempt:
    """The one attempt at this event: its route, and what is to be done.

    The most specific route that matches wins, by type first and stream second; an exact name is
    more specific than ``prefix.*``, a longer prefix than a shorter one, and all than ``*``. Between
    equals the route's name decides, so that two processes decide alike. ``SENT`` means *to be
    sent*. Closed gates decide nothing but ``DISABLED``.
    """
    best = _best(event, routes)
    if best is None:
        return _attempt(event, gates, NO_ROUTE, AttemptStatus.SKIPPED)
    return _attempt(event, gates, best.name, _status(best, gates))


def matches(pattern: str, name: str) -> bool:
    """True if ``name`` is meant: the pattern is that name, ``prefix.*`` of it, or ``*``."""
    return _rank(pattern, name) >= 0


def _status(route: Route, gates: RouterRecord) -> AttemptStatus:
    if not (gates.open and gates.master and route.enabled):
        return AttemptStatus.DISABLED
    return AttemptStatus.DRY_RUN if route.dry_run else AttemptStatus.SENT


def _best(event: LogEvent, routes: Sequence[Route]) -> Route | None:
    fitting = [
        (kind, stream, route.name, route)
        for route in routes
        if (kind := _rank(route.type, event.type)) >= 0
        and (stream := _rank(route.stream, event.stream)) >= 0
    ]
    if not fitting:
        return None
    top = max((kind, stream) for kind, stream, _, _ in fitting)
    return min((one for one in fitting if one[:2] == top), key=lambda one: one[2])[3]


_EXACT = 1_000_000
"""More than any prefix is long."""


def _rank(pattern: str, name: str) -> int:
    """The specificity of the pattern; -1 when it does not match."""
    if pattern == name:
        return _EXACT
    if pattern == "*":
        return 0
    if pattern.endswith(".*") and name.startswith(pattern[:-1]):
        return len(pattern)
    return -1


def _attempt(event: LogEvent, gates: RouterRecord, route: str, status: AttemptStatus) -> Attempt:
    return Attempt(
        router=gates.name, event=event.id, position=event.position, route=route, status=status
    )
