"""The dashboard as a view of Django's: natively under ASGI, by a loop of its own under WSGI."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final, TypeVar

from django.conf import settings
from django.core.handlers.asgi import ASGIRequest
from django.core.signals import setting_changed
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.urls import URLPattern, re_path
from django.views.decorators.csrf import csrf_exempt

from offpath.contrib.django.asgi_call import AsgiCall, BegunAnswer
from offpath.contrib.django.backend import app_of
from offpath.contrib.django.migration import BACKENDS
from offpath.contrib.django.sign_in import session_auth
from offpath.errors import ConfigurationError
from offpath.jobs.blocking.loop_thread import LoopThread, wait
from offpath.web import dashboard
from offpath.web.auth import ADMIN, Can

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Scope

T = TypeVar("T")

_RIGHTS: Final = {
    "offpath.view_dashboard": (Can.READ,),
    "offpath.view_payload": (Can.PAYLOAD,),
    "offpath.act_job": (Can.ACT, Can.OPERATE),
}
_LOOP: Final = LoopThread()
"""The loop of the dashboard under WSGI, which has none: one a process."""


def permitted_rights(user: Any) -> Iterable[Can] | None:  # noqa: ANN401 - the project's own user model
    """The rights that Django's permissions give: staff with ``offpath.view_dashboard`` may look,
    with ``act_job`` act, with ``view_payload`` see arguments; superusers may do all.
    """
    if not user.is_active or not user.is_staff or not user.has_perm("offpath.view_dashboard"):
        return None
    if user.is_superuser:
        return ADMIN
    return {can for name, rights in _RIGHTS.items() if user.has_perm(name) for can in rights}


def dashboard_urls(**terms: Any) -> list[URLPattern]:  # noqa: ANN401 - those of dashboard()
    """Patterns for ``path("jobs/", include(dashboard_urls(title="shop")))``.

    The terms are those of :func:`offpath.web.dashboard`; ``auth`` is Django's sign-in with
    :func:`permitted_rights` unless given. Raises ``TypeError`` for another keyword.
    """
    inspect.signature(dashboard).bind(None, **{"auth": False, **terms})
    mounted = _Mounted(terms)
    setting_changed.connect(mounted.forget, weak=False)
    return [re_path(r"^(?P<rest>.*)$", csrf_exempt(_view_of(mounted)), name="dashboard")]


def _view_of(mounted: _Mounted) -> Callable[..., Coroutine[Any, Any, HttpResponseBase]]:
    # its own check of what changes something stands in the place of Django's
    async def dashboard_view(request: HttpRequest, rest: str) -> HttpResponseBase:
        request.get_host()  # ALLOWED_HOSTS, whatever middleware there is
        call = AsgiCall(mounted.console(), _scope(request, rest), request.body)
        if isinstance(request, ASGIRequest):
            return _answer(await call.begin(), _chunks(call))
        return _answer(await _there(call.begin()), _blocking_chunks(call))

    return dashboard_view


class _Mounted:
    """The dashboard of one ``include``: made by the first request, when all settings are read."""

    def __init__(self, terms: dict[str, Any]) -> None:
        self._terms = terms
        self._console: ASGIApp | None = None

    def console(self) -> ASGIApp:
        """The dashboard on every backend of ours in ``TASKS``. Raises ``ConfigurationError``."""
        if self._console is None:
            backends = getattr(settings, "TASKS", {}).items()
            names = [name for name, one in backends if one.get("BACKEND") in BACKENDS]
            if not names:
                raise ConfigurationError("TASKS names no backend of ours: nothing is to be shown")
            apps = {name: app_of(name) for name in names}
            shown = apps[names[0]] if len(names) == 1 else apps
            terms = {"auth": session_auth(permitted_rights), **self._terms}
            self._console = dashboard(shown, **terms)
        return self._console

    def forget(self, *, setting: str, **_: object) -> None:
        """Make it anew: a test has changed what it was made of."""
        if setting in {"TASKS", "DATABASES", "LOGIN_URL"}:
            self._console = None


def _scope(request: HttpRequest, rest: str) -> Scope:
    path = request.path
    native = request.scope if isinstance(request, ASGIRequest) else {}
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": native.get("http_version", "1.1"),
        "method": request.method,
        "scheme": request.scheme,
        "path": path,
        "raw_path": path.encode(),
        "root_path": path.removesuffix(rest).rstrip("/"),
        "query_string": request.META.get("QUERY_STRING", "").encode("latin-1"),
        "headers": native.get("headers") or list(_headers(request)),
        "client": (request.META.get("REMOTE_ADDR", ""), 0),
        "server": (request.META.get("SERVER_NAME", ""), int(request.META.get("SERVER_PORT") or 0)),
    }


def _headers(request: HttpRequest) -> Iterator[tuple[bytes, bytes]]:
    for name, value in request.headers.items():
        yield name.lower().encode("latin-1"), str(value).encode("latin-1")


def _answer(begun: BegunAnswer, chunks: AsyncIterator[bytes] | Iterator[bytes]) -> HttpResponseBase:
    answer: HttpResponseBase
    if begun.whole:
        answer = HttpResponse(begun.first, status=begun.status)
    else:
        answer = StreamingHttpResponse(chunks, status=begun.status)
    del answer.headers["Content-Type"]  # Django's own guess
    for name, value in begun.headers:
        if name == "set-cookie":
            answer.cookies.load(value)
        else:
            answer.headers[name] = value
    return answer


async def _chunks(call: AsgiCall) -> AsyncIterator[bytes]:
    try:
        while (chunk := await call.chunk()) is not None:
            yield chunk
    finally:
        await call.close()


def _blocking_chunks(call: AsgiCall) -> Iterator[bytes]:
    def run(step: Coroutine[Any, Any, T]) -> T:
        return wait(asyncio.run_coroutine_threadsafe(step, _LOOP.loop()))

    try:
        while (chunk := run(call.chunk())) is not None:
            yield chunk
    finally:
        run(call.close())


async def _there(step: Coroutine[Any, Any, T]) -> T:
    """Await a step in the loop of the dashboard."""
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(step, _LOOP.loop()))
