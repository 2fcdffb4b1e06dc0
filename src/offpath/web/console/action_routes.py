"""The one door for writes: actions asked for by pages and programs, previewed, stopped."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar
from urllib.parse import parse_qsl, quote, urlencode

import msgspec
from msgspec import Struct
from msgspec.structs import replace
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from offpath.app import App
from offpath.errors import Conflict, InvalidArgument, NotFound, OffpathError, Unconfirmed
from offpath.model.action import ActionRecord, ActionState
from offpath.model.redact import redact, redact_text
from offpath.operating import actions
from offpath.operating.actions import Asker
from offpath.operating.documents.actions import ActionDocument, describe
from offpath.operating.orders import ActionAsked
from offpath.operating.previews import Preview
from offpath.operating.redaction import Redaction
from offpath.operating.verbs import Verb, verb_of
from offpath.runtime.ids import new_id
from offpath.web.console.action_forms import ActionForm, read_query
from offpath.web.console.answers import json_answer
from offpath.web.console.bodies import Larger, read_form, read_json
from offpath.web.console.places import Place
from offpath.web.console.renderer import Pages
from offpath.web.console.several import sum_of
from offpath.web.console.stops import Stop, inside, sentence
from offpath.web.console.visits import base_of, visit_of
from offpath.web.viewers import Can

if TYPE_CHECKING:
    from starlette.requests import Request

T = TypeVar("T")
API: Final = "/api/v1"
WRITING: Final = 10.0
"""Seconds for what an action does within its request."""
SOON: Final = 1.0
"""Seconds that a page waits for the end of an action that goes on behind it."""
PAGES: Final = "dashboard"
"""The way of an action that a person asks for."""
_TO_MEND: Final = frozenset({"UNCONFIRMED", "NOTE.MISSING", "INVALID_ARGUMENT"})
"""The refusals after which the page asks again, with what was filled in."""
_DONE: Final = "done"
"""The field of a query that names the action which a page tells of."""


class ActionTerms(Struct, frozen=True, kw_only=True):
    """The terms on which actions are taken."""

    read_only: bool = False
    require_note: bool = False


class StopAsked(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A stop of an action, as a program asks for it. It may have no body at all."""

    note: str = ""
    """The reason for it."""


class PageSurroundings(Protocol):
    """The console, as far as pages of actions need it."""

    def around(self, place: Place, request: Request) -> dict[str, Any]:
        """The values that every page has."""
        ...

    def seen(self, place: Place, request: Request) -> Redaction:
        """The redaction for this viewer."""
        ...


class ActionRoutes:
    """The routes of actions."""

    def __init__(self, pages: Pages, terms: ActionTerms, console: PageSurroundings) -> None:
        self._pages = pages
        self.terms = terms
        self._console = console

    def of_place(self, place: Place) -> list[Route]:
        """The routes of one database."""

        def bound(
            method: Callable[[Place, Request], Awaitable[Response]],
        ) -> Callable[[Request], Awaitable[Response]]:
            async def answer(request: Request) -> Response:
                return await method(place, request)

            return answer

        return [
            Route("/act", bound(self._confirm), methods=["GET"]),
            Route("/act", bound(self._act), methods=["POST"]),
            Route("/actions/{id}/stop", bound(self._stop_and_look), methods=["POST"]),
            Route(f"{API}/actions", bound(self._post), methods=["POST"]),
            Route(f"{API}/actions/preview", bound(self._preview), methods=["POST"]),
            Route(f"{API}/actions/{{id}}/stop", bound(self._stop), methods=["POST"]),
        ]

    # -- programs --------------------------------------------------------------------------------

    async def _post(self, place: Place, request: Request) -> Response:
        asked = await read_json(request, ActionAsked, _larger(request, lambda one: one.verb))
        record = await self._asked(place, request, asked, "api")
        status = 202 if record.state is ActionState.RUNNING else 200
        return json_answer(request, self._told(place, request, record), status)

    async def _preview(self, place: Place, request: Request) -> Response:
        asked = await read_json(request, ActionAsked, _larger(request, lambda one: one.verb))
        self._allow(request, _refused(lambda: verb_of(asked.verb)))
        return json_answer(request, await self._previewed(place, asked))

    async def _stop(self, place: Place, request: Request) -> Response:
        asked = StopAsked()
        if request.headers.get("content-length", "0") != "0":
            asked = await read_json(request, StopAsked)
        return json_answer(request, await self._stopped(place, request, asked.note, "api"))

    # -- people ----------------------------------------------------------------------------------

    async def _confirm(self, place: Place, request: Request) -> Response:
        """The page on which an action is confirmed. It changes nothing."""
        form = _refused(lambda: read_query(request.url.query))
        self._allow(request, form.verb)
        return await self._confirming(place, request, form, "")

    async def _act(self, place: Place, request: Request) -> Response:
        pairs = await read_form(request, _larger(request, lambda one: dict(one).get("verb")))
        form = _refused(lambda: ActionForm(pairs))
        try:
            records = [
                await self._asked(place, request, each, PAGES)
                for each in await self._asked_each(place, form)
            ]
        except Stop as stop:
            if stop.code not in _TO_MEND:
                raise
            self._allow(request, form.verb)
            return await self._confirming(place, request, form, redact_text(stop.text), stop.status)
        if len(records) > 1:  # each is told by its own row
            return RedirectResponse(f"{base_of(request)}/actions", 303)
        return RedirectResponse(_back(base_of(request), form, records[0]), 303)

    async def _stop_and_look(self, place: Place, request: Request) -> Response:
        form = dict(await read_form(request))
        await self._stopped(place, request, form.get("note", ""), PAGES)
        action_id = quote(request.path_params["id"], safe="")
        return RedirectResponse(f"{base_of(request)}/actions/{action_id}", 303)

    async def _asked_each(self, place: Place, form: ActionForm) -> list[ActionAsked]:
        """The actions of a form. Of several, the number of all their rows confirms each."""
        forms = form.each()
        found = [_refused(partial(one.asked, action_id=one.one("action") or None)) for one in forms]
        if len(found) == 1:
            return found
        told = [await self._previewed(place, one) for one in found]
        together = sum_of(told)
        if together["confirm"] is not None and form.one("confirm") != together["confirm"]:
            raise Stop(
                409,
                "UNCONFIRMED",
                f"It cannot be brought back: confirm it by {together['confirm']!r}.",
            )
        return [
            replace(one, confirm=each["confirm"]) for one, each in zip(found, told, strict=True)
        ]

    async def _confirming(
        self, place: Place, request: Request, form: ActionForm, said: str, status: int = 200
    ) -> Response:
        drafts = [_refused(one.drafted) for one in form.each()]
        told = [await self._previewed(place, one, draft=True) for one in drafts]
        found = told[0] if len(told) == 1 else sum_of(told)
        text = self._pages.render(
            "act.html",
            d=found,
            form=form,
            verb=form.verb,
            said=said,
            actions=form.many("action") or tuple(new_id() for _ in drafts),
            back=inside(form.back),
            **self._console.around(place, request),
        )
        return HTMLResponse(text, status)

    # -- both ------------------------------------------------------------------------------------

    def _allow(self, request: Request, verb: Verb) -> None:
        """Raise ``Stop`` for whoever may not do this."""
        if self.terms.read_only:
            raise Stop(403, "READ_ONLY", "This dashboard changes nothing: it is read-only.")
        if verb.right not in visit_of(request).viewer.can:
            text = f"{verb.name} needs the right {verb.right.value!r}, which you do not have."
            raise Stop(403, "RIGHT.MISSING", text)

    async def _asked(
        self, place: Place, request: Request, asked: ActionAsked, via: str
    ) -> ActionRecord:
        """The action, done if it is a small one, otherwise begun."""
        self._allow(request, _refused(lambda: verb_of(asked.verb)))
        self._want_note(asked.note)
        by = _asker(request, via)
        try:
            return await self._done(place, asked, by)
        finally:
            place.shares.forget()  # whoever did it sees what became of it

    async def _done(self, place: Place, asked: ActionAsked, by: Asker) -> ActionRecord:
        via = by.via
        record = await _answered(place, lambda app: actions.ask(app, asked, by))
        if record.state is not ActionState.RUNNING or not record.holder.startswith(f"{via}/"):
            return record
        if not actions.is_small(record):
            carried = place.carry(lambda app: actions.carry_out(app, record))
            if via == PAGES:  # the page that comes next tells of its end, if that is soon
                await asyncio.wait({carried}, timeout=SOON)
            return record
        return await _answered(place, lambda app: actions.carry_out(app, record))

    async def _previewed(
        self, place: Place, asked: ActionAsked, *, draft: bool = False
    ) -> dict[str, Any]:
        found: Preview = await _answered(
            place, lambda app: actions.preview(app, asked, draft=draft)
        )
        told: dict[str, Any] = redact(msgspec.to_builtins(found, builtin_types=(datetime,)), ())
        return told

    def _want_note(self, note: str) -> None:
        """Raise ``Stop`` where a reason is wanted, and none is given."""
        if self.terms.require_note and not note.strip():
            raise Stop(400, "NOTE.MISSING", "Say why: this dashboard keeps a note of each action.")

    async def _stopped(self, place: Place, request: Request, note: str, via: str) -> dict[str, Any]:
        action_id = request.path_params["id"]
        known = await _answered(place, lambda app: actions.action(app, action_id))
        self._allow(request, _refused(lambda: verb_of(known.verb)))
        self._want_note(note)
        by = _asker(request, via)
        record = await _answered(place, lambda app: actions.stop(app, action_id, by, note))
        place.shares.forget()
        return self._told(place, request, record)

    def _told(self, place: Place, request: Request, record: ActionRecord) -> dict[str, Any]:
        document: ActionDocument = describe(record, self._console.seen(place, request))
        told: dict[str, Any] = redact(msgspec.to_builtins(document, builtin_types=(datetime,)), ())
        return told


async def told_of(place: Place, query: str, seen: Redaction) -> tuple[dict[str, Any] | None, str]:
    """The action that a page tells of, and the page's query without it."""
    pairs = parse_qsl(query, keep_blank_values=True)
    wanted = next((value for name, value in pairs if name == _DONE), None)
    if wanted is None:
        return None, query
    rest = urlencode([pair for pair in pairs if pair[0] != _DONE])
    try:
        record = await place.ask(lambda app: actions.action(app, wanted))
    except (NotFound, InvalidArgument):
        return None, rest
    told: dict[str, Any] = redact(
        msgspec.to_builtins(describe(record, seen), builtin_types=(datetime,)), ()
    )
    return told, rest


async def _answered(place: Place, work: Callable[[App], Awaitable[T]]) -> T:
    try:
        return await place.ask(work, patience=WRITING)
    except OffpathError as error:
        raise _stop_of(error) from error


def _asker(request: Request, via: str) -> Asker:
    """Whoever asks. Raises ``Stop`` for a name that no row can hold."""
    return _refused(lambda: Asker(name=visit_of(request).viewer.name, via=via))


def _larger(request: Request, verb: Callable[[T], str | None]) -> Larger[T] | None:
    """The rule that lets in the body of a new job; None for whoever may make none."""
    if Can.ENQUEUE not in visit_of(request).viewer.can:
        return None
    return lambda found: verb(found) == _NEW_JOB


_NEW_JOB: Final = "job.enqueue"


def _refused(read: Callable[[], T]) -> T:
    try:
        return read()
    except OffpathError as error:
        raise _stop_of(error) from error


def _stop_of(error: OffpathError) -> Exception:
    """The end of a request by a refusal; any other error as it is."""
    match error:
        case Unconfirmed() | Conflict():
            return Stop(409, error.code.upper(), sentence(error))
        case NotFound():
            return Stop(404, error.code.upper(), sentence(error))
        case InvalidArgument():
            return Stop(400, error.code.upper(), sentence(error))
    return error


def _back(base: str, form: ActionForm, record: ActionRecord) -> str:
    """The page from which it came, told about the action."""
    path, _, query = inside(form.back).partition("?")
    pairs = [pair for pair in parse_qsl(query, keep_blank_values=True) if pair[0] != _DONE]
    return f"{base}{path}?{urlencode([*pairs, (_DONE, record.id)])}"
