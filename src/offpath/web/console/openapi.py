"""The OpenAPI document of the JSON API, made of the documents themselves."""

from __future__ import annotations

import re
from importlib.metadata import version
from typing import Any

import msgspec

from offpath.web.console.readings import READINGS, DocumentReading
from offpath.web.problem import MEDIA_TYPE

_REF = "#/components/schemas/{name}"


def document() -> dict[str, Any]:
    """The document."""
    kinds = {one.document for one in READINGS}
    _, schemas = msgspec.json.schema_components(kinds, ref_template=_REF)
    return {
        "openapi": "3.1.0",
        "info": {"title": "offpath dashboard", "version": version("offpath")},
        "paths": {one.path: {"get": _operation(one)} for one in READINGS},
        "components": {
            "schemas": {**schemas, "Problem": _PROBLEM},
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"bearer": []}],
    }


def _operation(one: DocumentReading) -> dict[str, Any]:
    inside = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in re.findall(r"{(\w+)}", one.path)
    ]
    asked = [{"name": name, "in": "query", "schema": _schema_of(name)} for name in one.names]
    schema = {"$ref": _REF.format(name=one.document.__name__)}
    return {
        "operationId": one.name,
        "summary": one.summary,
        "parameters": [*inside, *asked],
        "responses": {
            "200": {
                "description": one.summary,
                "content": {"application/json": {"schema": schema}},
            },
            "304": {"description": "It is as the `If-None-Match` says."},
            **{status: _problem(text) for status, text in _FAULTS.items()},
        },
    }


def _schema_of(name: str) -> dict[str, Any]:
    if name == "limit":
        return {"type": "integer", "minimum": 1, "maximum": 200}
    if name in {"after", "group"}:
        return {"type": "string"}
    return {"type": "array", "items": {"type": "string"}}


def _problem(text: str) -> dict[str, Any]:
    schema = {"$ref": _REF.format(name="Problem")}
    return {"description": text, "content": {MEDIA_TYPE: {"schema": schema}}}


_FAULTS = {
    "400": "A filter that is not known, or has no such value.",
    "401": "Nobody is known by the credentials.",
    "403": "A foreign page, or a name that is not the dashboard's.",
    "404": "There is none (any more).",
    "414": "The query is too long.",
    "429": "Too many wrong tokens.",
    "503": "The database is away, too slow, or of another version.",
}
_PROBLEM = {
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
