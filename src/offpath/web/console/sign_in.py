"""Signing in: a page that takes a token, a link that works once, and the cookie that both give."""

from __future__ import annotations

import hmac
import secrets
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from itsdangerous import BadData, URLSafeTimedSerializer

from offpath.web.auth import Token
from offpath.web.viewers import Viewer

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

COOKIE: Final = "offpath_dashboard"
LASTS: Final = 12 * 3_600
"""Seconds that a cookie signs in for: a shift."""
CODE_LASTS: Final = 60.0
"""Seconds in which a link must be opened."""
_LONGEST: Final = 4_096
_MOST_ENDED: Final = 1_000


class OneTimeCode:
    """A code that signs in once, soon after it was made: for the link that a command prints."""

    def __init__(self, name: str, monotonic: Callable[[], float]) -> None:
        self.text = secrets.token_urlsafe(24)
        self._name = name
        self._monotonic = monotonic
        self._until: float | None = monotonic() + CODE_LASTS

    def take(self, given: str) -> str | None:
        """The name of the person who signs in; None for another code, a late or a second one."""
        late = self._until is None or self._monotonic() > self._until
        if late or not hmac.compare_digest(given.encode(), self.text.encode()):
            return None
        self._until = None
        return self._name


class Cookies:
    """Cookies that are signed with a key made of the tokens: every process with them reads them."""

    def __init__(self, token: Token) -> None:
        self._token = token
        self._signer = URLSafeTimedSerializer(token.secret, salt="offpath.dashboard")
        self._ended: OrderedDict[str, None] = OrderedDict()
        """Cookies that were signed out of here, the newest last: a copy of one is good no more."""

    def viewer(self, request: Request) -> Viewer | None:
        """The viewer whose cookie comes with the request."""
        given = request.cookies.get(COOKIE, "")
        if not given or len(given) > _LONGEST or given in self._ended:
            return None
        try:
            name = self._signer.loads(given, max_age=LASTS)
        except BadData:
            return None
        return self._token.named(name) if isinstance(name, str) else None

    def holder(self, given: str) -> Viewer | None:
        """The viewer whose token this is."""
        return self._token.viewer(given)

    def give(self, response: Response, name: str, *, path: str, secure: bool) -> None:
        """Have the browser keep who it is."""
        response.set_cookie(
            COOKIE,
            self._signer.dumps(name),
            max_age=LASTS,
            path=path,
            secure=secure,
            httponly=True,
            samesite="strict",
        )

    def forget(self, request: Request, response: Response, *, path: str) -> None:
        """Have the browser forget it, and end what it had."""
        if self.viewer(request) is not None:
            self._ended[request.cookies[COOKIE]] = None
            if len(self._ended) > _MOST_ENDED:
                self._ended.popitem(last=False)
        response.delete_cookie(COOKIE, path=path, httponly=True, samesite="strict")
