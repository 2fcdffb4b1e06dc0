"""Declarations of routers and their routes, checked."""

from __future__ import annotations

from typing import Any

from offpath.errors import Conflict, InvalidArgument
from offpath.events.position import encode
from offpath.model import checks
from offpath.model.route import SLOTS, RouterRecord, RouterSpec


def checked_spec(
    name: str, *, domain: str, start: str | int | tuple[Any, ...], partitions: int
) -> RouterSpec:
    """A router's declaration. Raises ``InvalidArgument``."""
    mark = None
    if isinstance(start, tuple):
        start, mark = 0, encode(start)
    if isinstance(start, str) and start not in {"beginning", "now"}:
        raise InvalidArgument(
            f"start says where a new router begins: 'beginning', 'now' or a position, not {start!r}"
        )
    if not isinstance(start, str):
        start = checks.integer(start, "start", least=0, most=2**63 - 1)
    if ":" in checks.name(name, "router"):
        raise InvalidArgument(f"a router's name has no ':', which parts it from a route: {name!r}")
    return RouterSpec(
        name=name,
        domain=checks.name(domain, "domain"),
        start=start,
        partitions=checks.integer(partitions, "partitions", least=1, most=SLOTS),
        mark=mark,
    )


def refuse_changed(spec: RouterSpec, record: RouterRecord) -> None:
    """A stored route takes what it took when it was made, whatever the program says now."""
    stored = {route.name: route for route in record.routes}
    for route in spec.routes:
        old = stored.get(route.name, route)
        if (old.type, old.stream) != (route.type, route.stream):
            raise Conflict(
                f"route {route.name!r} of router {spec.name!r} is stored for type {old.type!r} and "
                f"stream {old.stream!r}, and declared here for {route.type!r} and "
                f"{route.stream!r}: give the changed route another name"
            )


def pattern(value: str, what: str) -> str:
    """A name, ``prefix.*`` or ``*``. Raises ``InvalidArgument`` for another."""
    checks.name(value, what)
    if "*" in value and value != "*" and not value.endswith(".*"):
        raise InvalidArgument(f"{what} is a name, 'prefix.*' or '*', not {value!r}")
    return value
