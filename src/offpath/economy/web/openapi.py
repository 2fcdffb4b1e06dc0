"""The OpenAPI document of the economy's service, made of the operations themselves."""

from __future__ import annotations

import types
from datetime import datetime, timedelta
from functools import cache
from importlib.metadata import version
from inspect import cleandoc
from typing import Any, Final, Literal, Union, get_args, get_origin, get_type_hints

from msgspec import NODEFAULT, Struct
from msgspec.structs import fields

from offpath.economy.ledger.actors import Actor
from offpath.economy.ledger.wire import KINDS, SELLERS, camel
from offpath.model.ledger.money import Money

_MONEY: Final = {"type": "string", "pattern": r"^(CREDIT|USD):-?\d+(\.\d{1,2})?$"}
_JSON_TYPES: Final[dict[Any, dict[str, Any]]] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    datetime: {"type": "string", "format": "date-time"},
    timedelta: {"type": "number", "description": "seconds"},
    Money: {"$ref": "#/components/schemas/Money"},
    Actor: {"$ref": "#/components/schemas/Actor"},
}


def document(*, authenticated: bool) -> dict[str, Any]:
    """The document; where callers are authenticated no body names an actor."""
    operations = {
        kind.__name__: _operation(kind, authenticated=authenticated) for kind in KINDS.values()
    }
    refs = [{"$ref": f"#/components/schemas/{name}"} for name in operations]
    mapping = {tag: f"#/components/schemas/{kind.__name__}" for tag, kind in sorted(KINDS.items())}
    schemas = {"Money": _MONEY, "Problem": _problem(), "Outcome": _outcome(), **operations}
    if not authenticated:
        schemas["Actor"] = _object(Actor)
    body = {"oneOf": refs, "discriminator": {"propertyName": "kind", "mapping": mapping}}
    return {
        "openapi": "3.1.0",
        "info": {"title": "offpath economy", "version": version("offpath")},
        "paths": {
            "/submit": {"post": _submit(body)},
            "/webhooks/{provider}": {"post": _webhook()},
            "/healthz": {"get": _plain("healthz", "The process answers.")},
            "/readyz": {"get": _plain("readyz", "The store answers.", failing=("503",))},
        },
        "components": {"schemas": schemas},
    }


def _submit(body: dict[str, Any]) -> dict[str, Any]:
    outcome = {"$ref": "#/components/schemas/Outcome"}
    return {
        "operationId": "submit",
        "summary": "Have an operation decided; a decline is an outcome, not an error.",
        "requestBody": {"required": True, "content": {"application/json": {"schema": body}}},
        "responses": {
            "200": {
                "description": "What became of it.",
                "content": {"application/json": {"schema": outcome}},
            },
            **_problems("400", "401", "403", "408", "413", "415", "422", "429", "500", "503"),
        },
    }


def _webhook() -> dict[str, Any]:
    return {
        "operationId": "webhook",
        "summary": "Keep what a provider reports (Standard Webhooks); it is applied later.",
        "parameters": [
            {"name": "provider", "in": "path", "required": True, "schema": {"type": "string"}}
        ],
        "requestBody": {"required": True, "content": {"application/json": {"schema": {}}}},
        "responses": {
            "200": {"description": "It was kept before."},
            "202": {"description": "It is kept."},
            "400": {"description": "No JSON, no id, or nothing that can be applied."},
            "401": {"description": "Not signed by the provider, or too old."},
            "403": {"description": "Sent by a browser for a page of another origin."},
            "404": {"description": "No such provider."},
            "408": {"description": "The body took too long."},
            "413": {"description": "The body is too large."},
            **_problems("429"),
            "503": {"description": "The store is away: send it again."},
        },
    }


def _plain(name: str, summary: str, failing: tuple[str, ...] = ()) -> dict[str, Any]:
    return {
        "operationId": name,
        "summary": summary,
        "responses": {"200": {"description": "Yes."}, **_problems(*failing)},
    }


def _problems(*codes: str) -> dict[str, Any]:
    schema = {"schema": {"$ref": "#/components/schemas/Problem"}}
    content = {"application/problem+json": schema}
    return {code: {"description": "A fault.", "content": content} for code in codes}


def _operation(kind: type[Struct], *, authenticated: bool) -> dict[str, Any]:
    schema = _object(kind, without="actor" if authenticated else None)
    schema["properties"] = {
        "kind": {"const": str(kind.__struct_config__.tag)},
        **schema["properties"],
    }
    # The shop says who earns where users ask; programs that are trusted say it.
    told = [one for one in schema["required"] if not (authenticated and one == SELLERS)]
    schema["required"] = ["kind", *told]
    schema["description"] = cleandoc(kind.__doc__ or "")
    return schema


def _object(kind: type[Struct], without: str | None = None) -> dict[str, Any]:
    hints = get_type_hints(kind)
    known = [field for field in fields(kind) if field.name != without]
    return {
        "type": "object",
        "properties": {camel(field.name): _schema(hints[field.name]) for field in known},
        "required": [
            camel(field.name)
            for field in known
            if field.default is NODEFAULT and field.default_factory is NODEFAULT
        ],
        "additionalProperties": False,
    }


@cache
def _schema(hint: Any) -> dict[str, Any]:  # noqa: ANN401 - of any field
    if hint in _JSON_TYPES:
        return _JSON_TYPES[hint]
    origin, args = get_origin(hint), get_args(hint)
    if origin in {Union, types.UnionType}:
        inner = [one for one in args if one is not type(None)]
        if timedelta in inner:  # seconds may be given as a number too: on the wire they always are
            inner = [timedelta, *([str] if str in inner else [])]
        found = [_schema(one) for one in inner[: 2 if timedelta in inner else 1]]
        if type(None) in args:
            found.append({"type": "null"})
        return {"anyOf": found} if len(found) > 1 else found[0]
    if origin is Literal:
        return {"enum": list(args)}
    if origin is tuple:
        return {"type": "array", "items": _schema(args[0]), "minItems": 1}
    return _object(hint)


def _outcome() -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {
            "status": {"enum": ["committed", "duplicate", "rejected"]},
            "transaction": {"type": "object"},
            "reason": {"type": "string"},
            "detail": {"type": "object"},
        },
        "required": ["status"],
    }


def _problem() -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {
            "type": {"type": "string"},
            "title": {"type": "string"},
            "status": {"type": "integer"},
            "code": {"type": "string"},
            "retryable": {"type": "boolean"},
        },
        "required": ["type", "title", "status", "code", "retryable"],
        "additionalProperties": False,
    }
