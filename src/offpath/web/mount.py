"""The dashboard, to be mounted in a service of your own."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct

from offpath.errors import InvalidArgument, MissingExtra
from offpath.model import checks
from offpath.runtime.seats import check_seat
from offpath.web.console.links import FIELDS, unknown_fields
from offpath.web.viewers import Authenticate

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from offpath.app import App
    from offpath.web.console.sign_in import OneTimeCode

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")
_TAKEN = frozenset({"assets", "healthz", "readyz", "sign-in", "sign-out"})
_QUICKEST = 0.5
ACCENTS = ("blue", "green", "orange", "purple", "red", "teal")


def dashboard(  # noqa: PLR0913 - each is a choice of its own
    app: App | str | Mapping[str, App | str],
    *,
    auth: Authenticate | Literal[False],
    read_only: bool = False,
    require_note: bool = False,
    payloads: Literal["redacted", "hidden"] = "redacted",
    redact: Iterable[str] = (),
    format_payload: Callable[[str, Any], Any] | None = None,
    links: Mapping[str, str] | None = None,
    title: str = "offpath",
    accent: str | None = None,
    refresh: float = 2.0,
    allow_hosts: Iterable[str] = (),
) -> ASGIApp:
    """The operator's dashboard, an ASGI app to be mounted in a service of your own.

    ``app`` is an :class:`offpath.App`, a database's URL, or a mapping from names to these. It is
    looked at through a small pool of the dashboard's own, which the first request opens; one in
    memory is asked in its own event loop.

    ``auth`` tells who asks: see :mod:`offpath.web.auth`. It has no default. ``False`` lets in
    everybody on this machine who addresses it by a name of its own, and refuses any other name and
    every other machine.

    What is changed is kept as an action: who, when, what, and how it went. A viewer changes what
    the rights allow; with ``read_only=True`` nobody changes anything, and with
    ``require_note=True`` each action wants a reason.

    ``payloads="hidden"`` shows nobody arguments, results and tracebacks. ``redact`` names more
    fields that are secrets. ``format_payload(task, arguments)`` answers what is shown in the place
    of arguments: any JSON; it is given them with secrets hidden. ``links`` are other systems of a
    job, by their words: a URL with ``{job_id}``, ``{task}``, ``{queue}``, ``{worker}`` or
    ``{trace_id}``, which is shown where the job has what it names. ``title`` and ``accent`` tell
    one database from another; ``refresh`` is seconds between two looks. With ``allow_hosts`` only
    these host names, and this machine's, are answered.

    Raises ``InvalidArgument``, and ``MissingExtra`` without ``offpath[dashboard]``.
    """
    terms = DashboardTerms(
        read_only=read_only,
        require_note=require_note,
        payloads=payloads,
        redact=frozenset(redact),
        format_payload=format_payload,
        links=dict(links or {}),
        title=title,
        accent=accent,
        refresh=refresh,
        hosts=frozenset(one.lower() for one in allow_hosts),
        loopback=auth is False,
    )
    return mounted(app, auth, terms)


class DashboardTerms(Struct, frozen=True, kw_only=True):
    """The terms on which a dashboard is shown."""

    read_only: bool = False
    require_note: bool = False
    payloads: str = "redacted"
    redact: frozenset[str] = frozenset()
    format_payload: Callable[[str, Any], Any] | None = None
    links: dict[str, str] = {}
    title: str = "offpath"
    accent: str | None = None
    refresh: float = 2.0
    hosts: frozenset[str] = frozenset()
    loopback: bool = False
    """True: names of this machine only are answered."""


def mounted(
    app: App | str | Mapping[str, App | str],
    auth: Authenticate | Literal[False],
    terms: DashboardTerms,
    code: OneTimeCode | None = None,
) -> ASGIApp:
    """The dashboard of :func:`dashboard`; ``code`` is of a link that signs in once."""
    _check(auth, terms)
    given = _named(app)
    try:
        from offpath.web.console import application, doors, places, renderer
        from offpath.web.console.action_routes import ActionTerms
    except ImportError as error:
        raise MissingExtra(
            "the dashboard needs starlette, jinja2 and others", "dashboard"
        ) from error
    look = application.Look(
        hidden=terms.payloads == "hidden",
        names=terms.redact,
        shape=terms.format_payload,
        links=terms.links,
        terms=ActionTerms(read_only=terms.read_only, require_note=terms.require_note),
    )
    pages = renderer.Pages(title=terms.title, accent=terms.accent, refresh=terms.refresh)
    rules = doors.DoorRules(authenticate=auth, hosts=terms.hosts, loopback=terms.loopback)
    return application.console(places.places_of(given), look, pages, rules, code=code)


def _check(auth: object, terms: DashboardTerms) -> None:
    if auth is not False and not callable(auth):
        raise InvalidArgument(
            "auth says who may look: auth.token('…'), auth.session(…), or a function of your own; "
            "auth=False is everybody on this machine"
        )
    if auth is not False:
        check_seat(auth, "auth")
    if terms.format_payload is not None and not callable(terms.format_payload):
        raise InvalidArgument("format_payload is a function of a task's name and its arguments")
    if terms.payloads not in {"redacted", "hidden"}:
        raise InvalidArgument(f"payloads is 'redacted' or 'hidden', not {terms.payloads!r}")
    if terms.accent is not None and terms.accent not in ACCENTS:
        raise InvalidArgument(f"accent is one of {', '.join(ACCENTS)}, not {terms.accent!r}")
    if checks.seconds(terms.refresh, "refresh") < _QUICKEST:
        raise InvalidArgument(f"refresh is {_QUICKEST:g} seconds or more")
    for name, url in terms.links.items():
        if not url.startswith(("https://", "http://")):
            raise InvalidArgument(f"the link {name!r} must begin with https:// or http://")
        if unknown := unknown_fields(url):
            known = ", ".join(f"{{{one}}}" for one in FIELDS)
            raise InvalidArgument(f"the link {name!r} has no field {unknown[0]!r}; it has {known}")


def _named(app: App | str | Mapping[str, App | str]) -> dict[str, App | str]:
    if not isinstance(app, Mapping):
        return {"": app}
    if not app:
        raise InvalidArgument("the mapping of databases is empty: give at least one")
    for name in app:
        if not _NAME.fullmatch(name) or name in _TAKEN:
            raise InvalidArgument(
                f"{name!r} cannot be the name of a database: it is a part of URLs, of letters, "
                "digits, dots and dashes"
            )
    return dict(app)
