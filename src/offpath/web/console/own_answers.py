"""Answers of the API about itself: its description, and who asks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from offpath.errors import InvalidArgument
from offpath.web.console.answers import json_answer
from offpath.web.console.document_row import DocumentReading
from offpath.web.console.openapi import document as openapi
from offpath.web.console.queries import RequestQuery
from offpath.web.console.stops import Stop, sentence
from offpath.web.console.visits import base_of, visit_of

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response


def described(
    readings: tuple[DocumentReading, ...], root: str
) -> Callable[[Request], Awaitable[Response]]:
    """``GET /openapi.json`` of an API that is at ``root``, below the mount."""

    async def answer(request: Request) -> Response:
        _refuse_query(request)
        servers = [{"url": f"{base_of(request)}{root}"}]
        return json_answer(request, {**openapi(readings), "servers": servers})

    return answer


async def me(request: Request) -> Response:
    """``GET /me``: the viewer and their rights."""
    _refuse_query(request)
    viewer = visit_of(request).viewer
    return json_answer(request, {"name": viewer.name, "can": sorted(viewer.can)})


def _refuse_query(request: Request) -> None:
    """Refuse the fields of a query where there are none to ask by."""
    try:
        RequestQuery(request.url.query, ())
    except InvalidArgument as error:
        raise Stop(400, error.code.upper(), sentence(error)) from error
