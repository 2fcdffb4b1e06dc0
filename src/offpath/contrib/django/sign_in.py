"""The dashboard behind Django's own sign-in."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from http.cookies import CookieError, SimpleCookie
from importlib import import_module
from typing import Any, Final

from asgiref.sync import sync_to_async
from django.conf import settings
from django.contrib.auth import get_user
from django.http import HttpRequest
from django.shortcuts import resolve_url

from offpath.contrib.django.connections import fresh_connections
from offpath.runtime.seats import checked_seat
from offpath.web.asked import Asked
from offpath.web.auth import ADMIN, OPERATOR, Can, Session, Viewer, session

Rights = Callable[[Any], "Iterable[Can] | None"]
"""The rights of a signed-in user; None for one who may not look."""
_LONGEST: Final = 8_192
"""Bytes of a header with cookies."""


def staff_rights(user: Any) -> Iterable[Can] | None:  # noqa: ANN401 - the project's own user model
    """The rights as Django's admin has them: all for superusers, an operator's for staff."""
    if not user.is_active or not user.is_staff:
        return None
    return ADMIN if user.is_superuser else OPERATOR


def session_auth(rights: Rights = staff_rights) -> Session:
    """The viewer whom Django's session knows, for ``dashboard(app, auth=session_auth())``.

    ``rights(user)`` says what a signed-in user may do; None for one who may not look. Left out, it
    is as in Django's admin: staff may operate, superusers may do all. People who are not signed in
    are sent to ``LOGIN_URL``; JSON answers 401.

    It reads the session and the user on Django's connection, in the thread that all of Django's
    own async calls share.
    """
    checked = checked_seat(rights, "rights", plain=True)

    async def find(asked: Asked) -> Viewer | None:
        key = _session_key(asked.headers.get("cookie", ""))
        return None if key is None else await sync_to_async(_viewer)(key, checked)

    return session(find, login_url=resolve_url(settings.LOGIN_URL))


def _session_key(cookies: str) -> str | None:
    if len(cookies) > _LONGEST:
        return None
    try:
        found = SimpleCookie(cookies).get(settings.SESSION_COOKIE_NAME)
    except CookieError:
        return None
    return None if found is None else found.value


def _viewer(key: str, rights: Rights) -> Viewer | None:
    with fresh_connections():
        request = HttpRequest()
        request.session = import_module(settings.SESSION_ENGINE).SessionStore(key)
        # The user's own check, which also ends sessions from before a change of the password.
        user = get_user(request)
        can = rights(user) if user.is_authenticated else None
        name = user.get_username()
    return None if can is None else Viewer(name, frozenset(can))
