"""Orders: what somebody asks for, read and checked before anything is written."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from offpath.app import App
from offpath.errors import InvalidArgument
from offpath.model import checks
from offpath.model.amendment import Amendment, checked_amendment
from offpath.operating.short_ids import target_whole
from offpath.operating.targets import LettersTarget, RowsTarget, checked_letters, checked_rows
from offpath.operating.verbs import Verb, verb_of


class ActionAsked(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An action as somebody asks for it."""

    verb: str
    target: dict[str, Any]
    options: dict[str, Any] = {}
    id: str | None = None
    """Its id, a UUID: asking again by the same one changes nothing twice."""
    note: str = ""
    """The reason for it."""
    confirm: str | None = None
    """The number of rows that may be removed, where a preview asks for it."""


class ActionOrder(Struct, frozen=True, kw_only=True):
    """An action that was asked for, read and checked."""

    verb: Verb
    target: Any
    options: Any


async def order_of(app: App, asked: ActionAsked, *, draft: bool = False) -> ActionOrder:
    """The order of somebody, up to the moment of asking. Raises ``InvalidArgument``.

    A draft may have options that do not fit, or not yet: they are left out.
    """
    verb = verb_of(asked.verb)
    target = read_part(asked.target, verb.target, "target")
    target = await target_whole(app, verb.name, target)
    now = await app.store().ping()
    if isinstance(target, RowsTarget):
        checked_rows(target, getattr(target, "where", None))
        before = now if target.before is None else checks.aware(target.before, "before")
        target = replace(target, before=min(before, now))
    if isinstance(target, LettersTarget):
        checked_letters(target)
    try:
        options = _options(verb, asked.options, now)
    except InvalidArgument:
        if not draft:
            raise
        options = _no_options(verb)
    return ActionOrder(verb=verb, target=target, options=options)


def _options(verb: Verb, given: dict[str, Any], now: datetime) -> Any:  # noqa: ANN401 - the verb's own
    options = read_part(given, verb.options, "options")
    if isinstance(options, Amendment):
        return checked_amendment(options, now)
    rate = getattr(options, "per_second", None)
    if rate is not None:
        checks.number(rate, "per_second", least=1e-6, most=1e6)
    return options


def _no_options(verb: Verb) -> Any:  # noqa: ANN401 - the verb's own
    """The options of a verb of which none is given; None where it must have some."""
    needed = any(field.required for field in msgspec.structs.fields(verb.options))
    return None if needed else verb.options()


def read_part(given: dict[str, Any], kind: type[Struct], name: str) -> Any:  # noqa: ANN401
    """A part of what was asked for, as its struct. Raises ``InvalidArgument``."""
    try:
        return msgspec.convert(given, kind)
    except msgspec.ValidationError as error:
        raise InvalidArgument(f"the {name} does not fit: {error}") from error
