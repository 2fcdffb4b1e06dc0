"""Forms of actions: the fields by which a page asks for one, and its link to be confirmed.

``verb``; ``id`` for each row, or ``match``, the query of a list, once for each action that it asks
for; the fields of other targets by their names; options as ``o.NAME``; ``note``, ``confirm``,
``before`` and ``back``.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from itertools import zip_longest
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode

import msgspec

from offpath.errors import InvalidArgument
from offpath.operating.orders import ActionAsked
from offpath.operating.targets import JobsTarget, JobsWhere, MessagesTarget, MessagesWhere
from offpath.operating.verbs import Verb, verb_of
from offpath.web.console.queries import RequestQuery

OPTION: Final = "o."
_WHERE: Final = {JobsTarget: JobsWhere, MessagesTarget: MessagesWhere}
_PAGING: Final = ("after", "limit")
_SINGLE: Final = frozenset({"group", "box"})
"""Filters that have one value."""
_JSON_OPTIONS: Final = frozenset({"payload", "input"})
"""Options that are any JSON."""

_TIMES: Final = frozenset({"run_at", "deadline", "since", "until"})
"""Options that are times: fields of a page give them in UTC, and without saying so."""


class ActionForm:
    """The fields of one form."""

    def __init__(self, pairs: list[tuple[str, str]]) -> None:
        self.pairs = pairs
        self.verb: Verb = verb_of(self.one("verb"))

    def one(self, name: str) -> str:
        """The last value of a field; empty without one."""
        return next((value for field, value in reversed(self.pairs) if field == name), "")

    def many(self, name: str) -> tuple[str, ...]:
        """Every value of a field."""
        return tuple(value for field, value in self.pairs if field == name)

    def each(self) -> tuple[ActionForm, ...]:
        """One form for each ``match``: a filter has no "or", so several faults are as many actions.

        Each has the id in its own place, so that a form which is sent twice acts once.
        """
        matches, ids = self.many("match"), self.many("action")
        if len(matches) < 2:  # noqa: PLR2004
            return (self,)
        rest = [pair for pair in self.pairs if pair[0] not in {"match", "action", "confirm"}]
        return tuple(
            ActionForm([*rest, ("match", match), *((("action", one),) if one else ())])
            for match, one in zip_longest(matches, ids[: len(matches)])
        )

    @property
    def back(self) -> str:
        """The page from which it came, with its query."""
        return self.one("back")

    def asked(self, *, action_id: str | None = None) -> ActionAsked:
        """The action that the form asks for. Raises ``InvalidArgument``."""
        return ActionAsked(
            id=action_id,
            verb=self.verb.name,
            target=self._target(),
            options=self._options(),
            note=self.one("note"),
            confirm=self.one("confirm") or None,
        )

    def drafted(self) -> ActionAsked:
        """The action as far as it is filled in: options that do not fit are left out.

        Raises ``InvalidArgument`` for a target that does not.
        """
        try:
            options = self._options()
        except InvalidArgument:
            options = {}
        target = self._target()
        return ActionAsked(verb=self.verb.name, target=target, options=options)

    def kept(self) -> list[tuple[str, str]]:
        """The fields that the page that confirms it sends again."""
        gone = {"note", "confirm", "before", "action"}
        return [(name, value) for name, value in self.pairs if name not in gone]

    def _target(self) -> dict[str, Any]:
        if self.verb.target in _WHERE:
            return self._rows()
        names = self.verb.target.__struct_fields__
        found: dict[str, Any] = {name: self.one(name) for name in names if name != "ids"}
        if "ids" in names:
            found["ids"] = list(self.many("id"))
        return found

    def _rows(self) -> dict[str, Any]:
        before = {"before": self.one("before")} if self.one("before") else {}
        if "match" not in {name for name, _ in self.pairs}:
            return {"ids": list(self.many("id")), **before}
        return {"where": matched(self.verb, self.one("match")), **before}

    def _options(self) -> dict[str, Any]:
        given: dict[str, Any] = {
            name.removeprefix(OPTION): value
            for name, value in self.pairs
            if name.startswith(OPTION) and value
        }
        for name in _JSON_OPTIONS & set(given):
            given[name] = _json(given[name], name)
        for name in _TIMES & set(given):
            given[name] = _time(given[name], name)
        return given if not given else _typed(self.verb, given)


def matched(verb: Verb, query: str) -> dict[str, Any]:
    """The filter of a verb's target for the query of a list. Raises ``InvalidArgument``."""
    names = _WHERE[verb.target].__struct_fields__
    found = RequestQuery(query, (*names, *_PAGING))
    where: dict[str, Any] = {}
    for name in names:
        if values := found.many(name):
            where[name] = values[-1] if name in _SINGLE else list(values)
    return where


def link_to(base: str, verb: str, back: str, **fields: str) -> str:
    """The link to the page that confirms an action."""
    return f"{base}/act?{urlencode({'verb': verb, **fields, 'back': back})}"


def read_query(text: str) -> ActionForm:
    """The form in the query of a link. Raises ``InvalidArgument``."""
    try:
        return ActionForm(parse_qsl(text, keep_blank_values=True, max_num_fields=1_100))
    except ValueError as error:
        if isinstance(error, InvalidArgument):
            raise
        raise InvalidArgument("the link has too many fields") from error


def _typed(verb: Verb, given: dict[str, Any]) -> dict[str, Any]:
    """Texts of fields as what they are: numbers, truths, times."""
    try:
        found = msgspec.convert(given, verb.options, strict=False)
    except msgspec.ValidationError as error:
        raise InvalidArgument(f"the options do not fit: {error}") from error
    typed: dict[str, Any] = msgspec.to_builtins(found)
    return {name: typed[name] for name in given}


def _time(text: str, name: str) -> str:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise InvalidArgument(
            f"{name} is a time in UTC, as 2026-12-01T08:00, not {text[:60]!r}"
        ) from error
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).isoformat()


def _json(text: str, name: str) -> Any:  # noqa: ANN401 - any JSON
    try:
        return json.loads(text)
    except ValueError as error:
        raise InvalidArgument(f"the {name} is not JSON: {error}") from error
