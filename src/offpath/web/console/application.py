"""The console's ASGI app: routes of pages, JSON, assets, and the sign-in page."""

from __future__ import annotations

import asyncio
import contextlib
import html
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl, quote

import msgspec
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Mount, Route, Router

from offpath.errors import InvalidArgument, NotFound
from offpath.model.redact import redact
from offpath.operating.panels import Panels
from offpath.operating.redaction import PayloadShape, Redaction
from offpath.web.auth import Token
from offpath.web.console import downloads, exports
from offpath.web.console.action_routes import ActionRoutes, ActionTerms, told_of
from offpath.web.console.answers import json_answer, marked
from offpath.web.console.attempts import Attempts
from offpath.web.console.bodies import read_form
from offpath.web.console.document_row import Asking, DocumentReading
from offpath.web.console.doors import DoorRules, Doors, too_many
from offpath.web.console.methods import by_path
from offpath.web.console.own_answers import described, me
from offpath.web.console.places import SLOW, Place, panels_until
from offpath.web.console.queries import RequestQuery, field_text, searched
from offpath.web.console.readings import READINGS, reading
from offpath.web.console.renderer import Pages, asset
from offpath.web.console.runbooks import guide, runbook, runbook_of
from offpath.web.console.sections import BESIDE, SECTIONS
from offpath.web.console.sign_in import Cookies, OneTimeCode
from offpath.web.console.stops import Stop, inside, sentence, unknown_page
from offpath.web.console.visits import base_of, visit_of
from offpath.web.console.wing_pages import menu_of, pages_for
from offpath.web.viewers import Can

if TYPE_CHECKING:
    from markupsafe import Markup
    from starlette.types import ASGIApp, Receive, Scope, Send

Answer = Callable[[Request], Awaitable[Response]]
API: Final = "/api/v1"
_YEAR: Final = "public, max-age=31536000, immutable"


class Look(Struct, frozen=True, kw_only=True):
    """The terms of what is shown, as a dashboard was made."""

    hidden: bool
    """True: nobody sees arguments, results and tracebacks."""
    names: frozenset[str]
    """More field names that are secrets."""
    shape: PayloadShape | None
    """The app's own view of arguments."""
    links: dict[str, str]
    """Links of a job to other systems: the word, and a URL: see :mod:`links`."""
    terms: ActionTerms = ActionTerms()


class Console:
    """Answers the requests that the doors have let in."""

    def __init__(
        self,
        places: list[Place],
        look: Look,
        pages: Pages,
        *,
        cookies: Cookies | None,
        attempts: Attempts,
        code: OneTimeCode | None,
    ) -> None:
        self._places = places
        self._look = look
        self._pages = pages
        self._cookies = cookies
        self._attempts = attempts
        self._code = code
        self._actions = ActionRoutes(pages, look.terms, self)
        self._wings = {one.name: pages_for(one.home) for one in places}
        pages.add_templates(one.package for some in self._wings.values() for one in some)

    def app(self, rules: DoorRules) -> ASGIApp:
        """The whole, behind its doors."""
        own = [
            Route("/healthz", self.healthz),
            Route("/readyz", self.readyz),
            Route("/assets/{name}", self.asset),
            *self._signing_in(),
        ]
        routes = [*by_path(own), *self._of_places()]
        # A bare router: what is raised within goes to the doors, which answer all of it.
        inner = Router(routes, default=_nowhere, lifespan=self._lifespan)
        return Doors(
            inner, rules, pages=self._pages, cookies=self._cookies, attempts=self._attempts
        )

    def _signing_in(self) -> list[Route]:
        if self._cookies is None:
            return []
        return [
            Route("/sign-in", self.sign_in_page, methods=["GET"]),
            Route("/sign-in", self.sign_in, methods=["POST"]),
            Route("/sign-out", self.sign_out, methods=["POST"]),
        ]

    def _of_places(self) -> list[Any]:
        if len(self._places) == 1 and not self._places[0].name:
            return self._of_place(self._places[0])
        mounts = [Mount(f"/{one.name}", routes=self._of_place(one)) for one in self._places]
        return [Route("/", self.first), *mounts]

    def _of_place(self, place: Place) -> list[Any]:
        readings = self._readings(place)
        shown = [one for one in readings if _paged(one)]
        pages = [Route(_matching(one.page or one.path), self._page(place, one)) for one in shown]
        data = [Route(API + _matching(one.path), self._data(place, one)) for one in readings]
        return by_path(
            (
                # before the actions by id: a preview is not an id
                *self._actions.of_place(place),
                *pages,
                *data,
                Route("/runbooks/{page}", self._told(place, "runbook.html", runbook)),
                Route("/guides/{page}", self._told(place, "guide.html", guide)),
                Route(f"{API}/openapi.json", described(readings, API)),
                Route(f"{API}/me", me),
            )
        )

    def _readings(self, place: Place) -> tuple[DocumentReading, ...]:
        """The readings of a database: those of every one, and of the wings that its app has."""
        return (*READINGS, *(row for one in self._wings[place.name] for row in one.readings))

    @contextlib.asynccontextmanager
    async def _lifespan(self, _: object) -> AsyncIterator[None]:
        yield
        for place in self._places:
            await place.close()

    # -- what everybody may ask ----------------------------------------------------------------

    async def healthz(self, request: Request) -> Response:
        """``GET /healthz``: without I/O."""
        return json_answer(request, {"status": "ok"})

    async def readyz(self, request: Request) -> Response:
        """``GET /readyz``: 503 while one of the databases is away. Strangers are not told which."""
        try:
            for place in self._places:
                await place.shared("readyz", lambda app: app.store().ping())
        except Stop as stop:
            raise Stop(
                stop.status,
                stop.code,
                "A database does not answer, or is of another version: the pages say more.",
                retryable=stop.retryable,
            ) from stop
        return json_answer(request, {"status": "ready"})

    async def asset(self, request: Request) -> Response:
        """A file that pages refer to, by a name that changes with its content."""
        found = asset(request.path_params["name"])
        if found is None:
            raise unknown_page()
        answer = marked(request, *found)
        answer.headers["cache-control"] = _YEAR
        return answer

    async def first(self, request: Request) -> Response:
        """``GET /`` of several databases: the first one."""
        return RedirectResponse(f"{base_of(request)}/{quote(self._places[0].name)}/", 303)

    # -- signing in ------------------------------------------------------------------------------

    async def sign_in_page(self, request: Request) -> Response:
        """The page that takes a token. It changes nothing, whatever its link says."""
        asked = dict(parse_qsl(request.url.query))
        return self._sign_in_form(request, asked.get("next", "/"), asked.get("code", ""), "")

    async def sign_in(self, request: Request) -> Response:
        """``POST /sign-in``: a token, or the code of a link that works once."""
        address = "" if request.client is None else request.client.host
        if (seconds := self._attempts.wait_for(address)) is not None:
            raise too_many(seconds)
        form = dict(await read_form(request))
        name = self._name_of(form)
        if name is None or self._cookies is None:
            self._attempts.wrong(address)
            said = "The link works once, within a minute." if form.get("code") else _WRONG
            return self._sign_in_form(request, form.get("next", "/"), "", said, status=403)
        base = base_of(request)
        answer = RedirectResponse(base + inside(form.get("next", "/")), 303)
        secure = request.url.scheme == "https"
        self._cookies.give(answer, name, path=base or "/", secure=secure)
        return answer

    async def sign_out(self, request: Request) -> Response:
        """``POST /sign-out``."""
        base = base_of(request)
        answer = RedirectResponse(f"{base}/sign-in", 303)
        if self._cookies is not None:
            self._cookies.forget(request, answer, path=base or "/")
        return answer

    def _name_of(self, form: dict[str, str]) -> str | None:
        if (code := form.get("code")) and self._code is not None:
            return self._code.take(code)
        viewer = self._cookies and self._cookies.holder(form.get("token", ""))
        return viewer.name if viewer else None

    def _sign_in_form(
        self, request: Request, after: str, code: str, said: str, status: int = 200
    ) -> Response:
        base = base_of(request)
        text = self._pages.render(
            "sign_in.html", base=base, top=base, after=inside(after), code=code, said=said
        )
        return HTMLResponse(text, status)

    # -- what is read ----------------------------------------------------------------------------

    def _data(self, place: Place, one: DocumentReading) -> Answer:
        async def answer(request: Request) -> Response:
            kind, query = exports.wanted(request, one)
            if kind is not None:
                return await self._export(place, one, request, kind, query)
            part, query = downloads.wanted(request, one)
            if part is not None:
                self._allow_payload(request, "A download")
                return downloads.answer(
                    await self._read(place, one, request, query=query), one, part
                )
            return json_answer(request, await self._read(place, one, request))

        return answer

    async def _export(
        self, place: Place, one: DocumentReading, request: Request, kind: str, query: str
    ) -> Response:
        """A list as a file. Its first piece is read before the answer begins, to tell of faults."""
        self._allow_payload(request, "An export")
        pages = exports.rows(lambda asked: self._read(place, one, request, query=asked), query)
        pieces = exports.written(kind, one, pages)
        first = [await anext(pieces)]
        if kind == "csv":  # behind the line of headings
            first += [piece async for piece in _taken(pieces, 1)]
        name = f"{one.name}.{kind}"
        headers = {"content-disposition": f'attachment; filename="{name}"'}
        return StreamingResponse(
            _after(first, pieces), 200, headers, media_type=exports.KINDS[kind]
        )

    def _allow_payload(self, request: Request, what: str) -> None:
        """Raise ``Stop`` for whoever may not see what jobs were given."""
        if Can.PAYLOAD not in visit_of(request).viewer.can or self._look.hidden:
            raise Stop(403, "RIGHT.MISSING", f"{what} needs the right 'payload'.")

    def _page(self, place: Place, one: DocumentReading) -> Answer:
        async def answer(request: Request) -> Response:
            if one.name == "jobs" and (text := dict(parse_qsl(request.url.query)).get("q")):
                path, query = searched(text)
                return RedirectResponse(f"{base_of(request)}{path}?{query}", 303)
            told, query = await told_of(place, request.url.query, self.seen(place, request))
            if told is None:  # it is the same for all who have these rights
                key = f"page {request.url.path}?{query} {sorted(self._rights(request))}"
                text = await place.shares.get(key, lambda: self._paged(place, one, request, query))
            else:
                text = await self._paged(place, one, request, query, told)
            if not self._look.terms.read_only:
                place.tend()
            return self._named(request, text)

        return answer

    async def _paged(
        self,
        place: Place,
        one: DocumentReading,
        request: Request,
        query: str,
        told: dict[str, Any] | None = None,
    ) -> str:
        """The text of a page, in which the viewer has no name yet."""
        names = BESIDE.get(one.name, ())
        found, *others = await asyncio.gather(
            self._read(place, one, request, query=query),
            *(self._beside(place, reading(name), request) for name in names),
        )
        beside = dict(zip(names, others, strict=True))
        around = self._around(place, one, request, query=query)
        return self._pages.render(f"{one.name}.html", d=found, **beside, **around, told=told)

    async def _beside(self, place: Place, one: DocumentReading, request: Request) -> Any:  # noqa: ANN401 - a plain document
        """The document of a reading that stands on another one's page; None: it was cut off."""
        try:
            return await self._read(place, one, request, query="")
        except Stop as stop:
            if stop.code != SLOW:
                raise
            return None

    def _named(self, request: Request, text: str) -> Response:
        """A page for this viewer."""
        own = text.replace(_VIEWER, html.escape(visit_of(request).viewer.name))
        return marked(request, own.encode(), "text/html; charset=utf-8")

    def around(self, place: Place, request: Request) -> dict[str, Any]:
        """The values of a page that shows no reading."""
        own = visit_of(request).viewer.name
        return {**self._around(place, None, request), "told": None, "viewer": own}

    def _around(
        self,
        place: Place,
        one: DocumentReading | None,
        request: Request,
        *,
        query: str | None = None,
    ) -> dict[str, Any]:
        """The values that every page has beside its document."""
        visit = visit_of(request)
        text = request.url.query if query is None else query
        asked = RequestQuery(text, one.names) if one and one.names else RequestQuery("", ())
        rest = request.url.path.removeprefix(request.scope.get("root_path", ""))
        return {
            "base": base_of(request),
            "top": visit.top,
            "viewer": _VIEWER,
            "signs_out": self._cookies is not None,
            "note_wanted": self._look.terms.require_note,
            "places": [each.name for each in self._places],
            "place": place.name,
            "page": (one.within or one.name) if one else "",
            "rest": rest,
            "elsewhere": _list_of(one, request, rest) if one in READINGS else "/",
            "here": f"{rest}?{text}" if text else rest,
            "can": self._rights(request),
            "sections": (*SECTIONS[:-1], *menu_of(self._wings[place.name]), SECTIONS[-1]),
            "query": asked,
            "field": field_text(asked.pairs),
            "json_url": _json_url(one, request, text),
            "exports": one is not None and exports.exported(one) and not self._look.hidden,
            "links": self._look.links,
            "runbook_of": runbook_of,
        }

    async def _read(
        self, place: Place, one: DocumentReading, request: Request, *, query: str | None = None
    ) -> Any:  # noqa: ANN401 - a plain document
        """The plain document of a reading, for this viewer."""
        seen = self.seen(place, request)
        given = request.url.query if query is None else query
        try:
            asking = Asking(
                query=RequestQuery(given, one.names),
                path=request.path_params,
                seen=seen,
                panels=Panels(panels_until()),
                home=place.home,
            )
            if one.behind is not None:
                told = await place.behind(
                    one.name, lambda app: one.read(app, asking), keep=one.behind
                )
                found: Struct = one.document() if told is None else told
            elif one.shared:
                found = await place.shared(f"{one.name} {given}", lambda app: one.read(app, asking))
            else:
                found = await place.ask(lambda app: one.read(app, asking))
        except NotFound as error:
            raise Stop(404, error.code.upper(), sentence(error)) from error
        except InvalidArgument as error:
            raise Stop(400, error.code.upper(), sentence(error)) from error
        # Names, tags and keys are anybody's texts too; what fields hold went by their names before.
        return redact(msgspec.to_builtins(found, builtin_types=(datetime,)), ())

    def _rights(self, request: Request) -> frozenset[str]:
        """The rights that this dashboard and the viewer's own leave."""
        own = visit_of(request).viewer.can
        kept = own & {Can.READ, Can.PAYLOAD} if self._look.terms.read_only else own
        return frozenset(one.value for one in kept)

    def seen(self, place: Place, request: Request) -> Redaction:
        """The redaction for this viewer."""
        may = Can.PAYLOAD in visit_of(request).viewer.can
        return Redaction(
            names=place.secret_names | self._look.names,
            payloads=may and not self._look.hidden,
            shape=self._look.shape,
        )

    def _told(self, place: Place, template: str, find: Callable[[str], Markup | None]) -> Answer:
        """A page of the documentation."""

        async def answer(request: Request) -> Response:
            found = find(request.path_params["page"])
            if found is None:
                raise unknown_page()
            around = self._around(place, None, request)
            text = self._pages.render(template, text=found, **around, told=None)
            return self._named(request, text)

        return answer


_VIEWER: Final = "\ue000viewer\ue000"
"""The place of the viewer's name in a page that several viewers share."""
_WRONG: Final = "This is not a token of the dashboard."


def console(
    places: list[Place],
    look: Look,
    pages: Pages,
    rules: DoorRules,
    *,
    code: OneTimeCode | None = None,
    monotonic: Callable[[], float] = time.monotonic,
) -> ASGIApp:
    """The app."""
    authenticate = rules.authenticate
    cookies = Cookies(authenticate) if isinstance(authenticate, Token) else None
    attempts = Attempts(monotonic)
    made = Console(places, look, pages, cookies=cookies, attempts=attempts, code=code)
    return made.app(rules)


async def _taken(pieces: AsyncIterator[bytes], most: int) -> AsyncIterator[bytes]:
    """The next pieces, so many at most."""
    for _ in range(most):
        async for piece in pieces:
            yield piece
            break


async def _after(first: Sequence[bytes], pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """All pieces, those first that were read before the answer began."""
    for piece in first:
        yield piece
    async for piece in pieces:
        yield piece


# -- small parts -----------------------------------------------------------------------------------


def _matching(path: str) -> str:
    """The path of a route; a name may have a slash, which servers do not tell from another."""
    return re.sub(r"{(name|router)}", r"{\1:path}", path)


def _paged(one: DocumentReading) -> bool:
    return one.paged and all(one.name not in beside for beside in BESIDE.values())


def _list_of(one: DocumentReading | None, request: Request, rest: str) -> str:
    """The page to go to in another database, which has this list, and not this row of it."""
    if one is None:
        return "/"
    return f"/{rest.split('/')[1]}" if request.path_params else rest


def _json_url(one: DocumentReading | None, request: Request, asked: str) -> str | None:
    if one is None:
        return None
    path = one.path
    for name, value in request.path_params.items():
        path = path.replace(f"{{{name}}}", quote(str(value), safe=""))
    query = f"?{asked}" if asked else ""
    return f"{base_of(request)}{API}{path}{query}"


async def _nowhere(_: Scope, __: Receive, ___: Send) -> None:
    raise unknown_page()
