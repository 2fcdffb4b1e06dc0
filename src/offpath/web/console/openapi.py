"""The OpenAPI document of the JSON API, made of the documents themselves."""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import StrEnum
from importlib.metadata import version
from typing import Any, Final

import msgspec

from offpath.model.action import ActionState
from offpath.model.job import JobState
from offpath.model.message import Box, MessageState
from offpath.model.route import AttemptStatus
from offpath.model.run import RunKind
from offpath.model.stats import STEPS
from offpath.operating.documents.actions import ActionDocument
from offpath.operating.previews import Preview
from offpath.operating.verbs import VERBS, Verb
from offpath.web.console.action_routes import StopAsked
from offpath.web.console.document_row import DocumentReading
from offpath.web.console.queries import SORTS, TIMES
from offpath.web.console.readings import READINGS
from offpath.web.console.work_readings import GroupChoice
from offpath.web.problem import MEDIA_TYPE

_REF = "#/components/schemas/{name}"
_JSON: Final = "application/json"


def document(readings: Sequence[DocumentReading] = READINGS) -> dict[str, Any]:
    """The document of these readings."""
    kinds = {one.document for one in readings} | {ActionDocument, Preview, StopAsked}
    kinds |= {kind for verb in VERBS.values() for kind in (verb.target, verb.options)}
    _, schemas = msgspec.json.schema_components(kinds, ref_template=_REF)
    paths = {one.path: {"get": _operation(one)} for one in readings}
    for path, operation in _writes().items():
        paths.setdefault(path, {})["post"] = operation
    return {
        "openapi": "3.1.0",
        "info": {"title": "offpath dashboard", "version": version("offpath")},
        "paths": paths,
        "components": {
            "schemas": {**schemas, "ActionAsked": _asked(), "Problem": _PROBLEM},
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"bearer": []}],
    }


def _operation(one: DocumentReading) -> dict[str, Any]:
    asked = [
        {"name": name, "in": "query", "schema": _schema_of(one.name, name)} for name in one.names
    ]
    return {
        "operationId": one.name,
        "summary": one.summary,
        "parameters": [*_inside(one.path), *asked],
        "responses": {
            "200": _answer(one.summary, one.document.__name__),
            "304": {"description": "It is as the `If-None-Match` says."},
            **{status: _problem(text) for status, text in _FAULTS.items()},
        },
    }


# -- writes ----------------------------------------------------------------------------------------


def _writes() -> dict[str, Any]:
    """The one door for writes: each path with its operation."""
    begun = {"202": _answer("It is begun, and goes on.", "ActionDocument")}
    return {
        "/actions": _write("act", "Do something.", "ActionDocument", body=True, more=begun),
        "/actions/preview": _write(
            "preview_action", "How many rows an action would be about.", "Preview", body=True
        ),
        "/actions/{id}/stop": {
            **_write("stop_action", "End a long one between two steps.", "ActionDocument"),
            "requestBody": {"content": {_JSON: {"schema": _ref("StopAsked")}}},
            "parameters": _inside("/actions/{id}/stop"),
        },
    }


def _write(
    name: str,
    summary: str,
    document: str,
    *,
    body: bool = False,
    more: dict[str, Any] | None = None,
) -> dict[str, Any]:
    asked = {"required": True, "content": {_JSON: {"schema": _ref("ActionAsked")}}}
    return {
        "operationId": name,
        "summary": summary,
        **({"requestBody": asked} if body else {}),
        "responses": {
            "200": _answer(summary, document),
            **(more or {}),
            **{status: _problem(text) for status, text in (_FAULTS | _REFUSALS).items()},
        },
    }


def _asked() -> dict[str, Any]:
    """The schema of an action: one of the verbs, each with its own target and options."""
    return {
        "oneOf": [_verb(one) for one in VERBS.values()],
        "discriminator": {"propertyName": "verb"},
    }


def _verb(one: Verb) -> dict[str, Any]:
    needed = ["verb", "target"]
    if any(field.required for field in msgspec.structs.fields(one.options)):
        needed.append("options")
    return {
        "type": "object",
        "title": one.name,
        "description": f"{one.words}. Needs the right `{one.right.value}`.",
        "properties": {
            "verb": {"const": one.name},
            "target": _ref(one.target.__name__),
            "options": _ref(one.options.__name__),
            **_COMMON,
        },
        "required": needed,
        "additionalProperties": False,
    }


# -- parts -----------------------------------------------------------------------------------------


def _inside(path: str) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "path", "required": True, "schema": _schema_in(path, name)}
        for name in re.findall(r"{(\w+)}", path)
    ]


def _schema_in(path: str, name: str) -> dict[str, Any]:
    """The schema of a part of a path. A worker may have an id of any form."""
    given = name == "id" and not path.startswith("/workers/")
    return {"type": "string", "format": "uuid"} if given else {"type": "string", "minLength": 1}


def _ref(name: str) -> dict[str, Any]:
    return {"$ref": _REF.format(name=name)}


def _answer(text: str, document: str) -> dict[str, Any]:
    return {"description": text, "content": {_JSON: {"schema": _ref(document)}}}


def _schema_of(reading: str, name: str) -> dict[str, Any]:
    """The schema of a field of a query."""
    if name == "limit":
        return {"type": "integer", "minimum": 1, "maximum": 200}
    if name == "after":
        return _PLACES.get(reading, _ID)
    if name in {"group", "event", "parent"}:
        return _ID
    if name == "sort":
        return {"enum": list(SORTS)}
    if name in {*TIMES, "from", "to"}:
        return _TIME
    if name == "step":
        return {"type": "integer", "enum": list(STEPS)}
    words = _WORDS.get((reading, name))
    one = {"type": "string"} if words is None else {"enum": [each.value for each in words]}
    return one if name in _SINGLE else {"type": "array", "items": one}


def _problem(text: str) -> dict[str, Any]:
    return {"description": text, "content": {MEDIA_TYPE: {"schema": _ref("Problem")}}}


_SINGLE: Final = frozenset({"box", "domain", "kind", "name", "range", "compare", "status", "text"})
"""Filters that have one value."""
_ID: Final = {"type": "string", "format": "uuid"}
_TIME: Final = {
    "anyOf": [
        {"type": "string", "format": "date-time"},
        {"type": "string", "pattern": "^[0-9]{1,9}[smhd]$"},
    ]
}
"""A time, or a span ago."""
_PLACES: Final[dict[str, dict[str, Any]]] = {
    "groups": {"type": "string"},
    "limits": {"type": "string"},
    "messages": {"type": "string"},
    "log": {"type": "string", "pattern": "^[0-9]{1,18}$"},
    "letters": {"type": "string", "pattern": "^[0-9]{1,18}$"},
    "attempts": {"type": "string", "pattern": "^[0-9]{1,18}(:[0-9]{1,9})?$"},
}
"""The place at which a list goes on, where it is not an id."""
_WORDS: Final[dict[tuple[str, str], type[StrEnum]]] = {
    ("jobs", "state"): JobState,
    ("messages", "state"): MessageState,
    ("messages", "box"): Box,
    ("actions", "state"): ActionState,
    ("attempts", "status"): AttemptStatus,
    ("groups", "state"): GroupChoice,
    ("runs", "kind"): RunKind,
}
"""Filters that have only some values."""
_FAULTS: Final = {
    "400": "A filter or a field that is not known, or has no such value.",
    "401": "Nobody is known by the credentials.",
    "403": "A foreign page, a name that is not the dashboard's, or a right that is missing.",
    "404": "There is none (any more).",
    "414": "The query is too long.",
    "429": "Too many wrong tokens.",
    "503": "The database is away, too slow, or of another version.",
}
_REFUSALS: Final = {
    "409": "The id is another action's, or the number of rows must be confirmed.",
    "413": "The body is too large.",
    "415": "The body is not JSON.",
}
_COMMON: Final[dict[str, Any]] = {
    "id": {"type": ["string", "null"], "format": "uuid"},
    "note": {"type": "string", "maxLength": 500},
    "confirm": {"type": ["string", "null"]},
}
_PROBLEM: Final = {
    "type": "object",
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "code": {"type": "string"},
        "retryable": {"type": "boolean"},
        "detail": {"type": "string"},
    },
    "required": ["type", "title", "status", "code", "retryable", "detail"],
}
