"""Routes with several methods: one route a path, so that a refusal names all of them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from offpath.web.console.stops import Stop

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

Answer = Callable[[Request], Awaitable[Response]]


class PathAnswers:
    """The answers of one path, by method: an ASGI app."""

    def __init__(self, answers: Mapping[str, Answer]) -> None:
        self._answers = answers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer. Raises ``Stop``, with the methods that there are, for another one."""
        request = Request(scope, receive)
        answer = self._answers.get(request.method)
        if answer is None:
            allowed = ", ".join(sorted(self._answers))
            raise Stop(
                405,
                "METHOD.NOT_ALLOWED",
                f"This path takes {allowed}, not {request.method[:20]}.",
                allow=allowed,
            )
        response = await answer(request)
        await response(scope, receive, send)


def by_path(routes: Iterable[Route]) -> list[Route]:
    """The routes, those of one path as one, in the order of their first ones."""
    found: dict[str, dict[str, Answer]] = {}
    for one in routes:
        known = found.setdefault(one.path, {})
        known.update(dict.fromkeys(one.methods or (), one.endpoint))
    return [Route(path, PathAnswers(answers)) for path, answers in found.items()]
