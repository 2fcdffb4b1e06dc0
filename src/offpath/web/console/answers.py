"""Answers: a page or JSON, with a mark by which an unchanged one is not sent again."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import msgspec
from starlette.responses import HTMLResponse, Response

from offpath.model.redact import redact_text
from offpath.web.console.stops import Stop
from offpath.web.console.visits import wants_json
from offpath.web.problem import MEDIA_TYPE, problem

if TYPE_CHECKING:
    from starlette.requests import Request

    from offpath.web.console.renderer import Pages


def json_answer(request: Request, document: Any, status: int = 200) -> Response:  # noqa: ANN401 - any JSON
    """A document as JSON."""
    return marked(request, msgspec.json.encode(document), "application/json", status)


def marked(request: Request, body: bytes, kind: str, status: int = 200) -> Response:
    """An answer with its mark; without its body when the asker has that already."""
    mark = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
    if mark in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers={"etag": mark})
    return Response(body, status, {"etag": mark}, kind)


def stopped(request: Request, stop: Stop, pages: Pages) -> Response:
    """The answer to a request that was ended: a page for people, a problem for programs.

    Its text quotes what was asked, which may be a URL with its password.
    """
    said = redact_text(stop.text)
    if wants_json(request):
        found = problem(stop.status, stop.code, retryable=stop.retryable)
        told = {**msgspec.to_builtins(found), "detail": said}
        return Response(msgspec.json.encode(told), stop.status, dict(stop.headers), MEDIA_TYPE)
    top = quote(request.scope.get("root_path", "").rstrip("/"))
    text = pages.render("stopped.html", stop=stop, said=said, base=top, top=top)
    return HTMLResponse(text, stop.status, dict(stop.headers))
