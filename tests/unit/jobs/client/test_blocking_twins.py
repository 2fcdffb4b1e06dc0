"""Each async verb of the app and its views has a blocking twin that is the same but for waiting."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from offpath import App, Handle
from offpath.errors import InvalidArgument
from offpath.jobs.blocking.twin import Twin, blocking
from offpath.jobs.client.core import core_of

APART = {
    "app.message_backlog": "events: app.blocking.run(app.message_backlog)",
    "app.open": "written by hand",
    "app.close": "written by hand",
    "app.enqueue": "written by hand: it returns blocking handles, and `within` needs no loop",
    "app.enqueue_by_name": "written by hand: it returns a blocking handle",
    "app.publish": "written by hand: `within` is a blocking connection and needs no loop",
    "app.accept": "written by hand: `within` is a blocking connection and needs no loop",
    "app.post": "written by hand: `within` is a blocking connection and needs no loop",
    "jobs.each": "an async iterator: page with find",
}
"""Async verbs without a derived twin, each with the reason."""

BY_HAND = [
    name.removeprefix("app.") for name, why in APART.items() if why.startswith("written by hand")
]
VIEWS = ("jobs", "dead", "groups", "schedules", "queues", "limits")


def _async_verbs(owner: type) -> dict[str, Callable[..., Any]]:
    return {
        name: verb
        for name, verb in inspect.getmembers(owner)
        if not name.startswith("_")
        and (inspect.iscoroutinefunction(verb) or inspect.isasyncgenfunction(verb))
    }


def _pairs() -> dict[str, tuple[Callable[..., Any], Callable[..., Any] | None]]:
    app = App()
    handle: Handle[Any, Any] = core_of(app).handle("0198a000-0000-7000-8000-000000000000", str)
    both: dict[str, tuple[object, object]] = {
        "app": (app, app.blocking),
        "handle": (handle, app.blocking.handle(handle)),
        **{name: (getattr(app, name), getattr(app.blocking, name)) for name in VIEWS},
    }
    return {
        f"{place}.{name}": (verb, getattr(type(twin), name, None))
        for place, (view, twin) in both.items()
        for name, verb in _async_verbs(type(view)).items()
    }


PAIRS = _pairs()


def test_each_async_verb_has_a_twin_or_a_reason() -> None:
    derived = {name for name, (_, twin) in PAIRS.items() if hasattr(twin, "__wrapped__")}
    assert len(derived) > 30
    assert sorted(PAIRS.keys() - derived) == sorted(APART)


@pytest.mark.parametrize("name", sorted(PAIRS.keys() - APART.keys()))
def test_a_twin_has_the_signature_and_the_words_of_its_verb(name: str) -> None:
    verb, twin = PAIRS[name]
    assert twin is not None
    assert inspect.signature(twin) == inspect.signature(verb)
    assert (twin.__name__, inspect.getdoc(twin)) == (verb.__name__, inspect.getdoc(verb))
    assert not inspect.iscoroutinefunction(twin)
    assert "await " not in (twin.__doc__ or "")


@pytest.mark.parametrize("name", BY_HAND)
def test_what_is_written_by_hand_takes_the_same_parameters(name: str) -> None:
    app = App()
    own, twin = (inspect.signature(getattr(one, name)).parameters for one in (app, app.blocking))
    assert [(each.name, each.kind, each.default) for each in twin.values()] == [
        (each.name, each.kind, each.default) for each in own.values()
    ]


class _View:
    async def double(self, n: int) -> int:
        """The number, doubled."""
        return 2 * n


class _Own(_View):
    async def double(self, n: int) -> int:
        return 20 * n


class _Twin(Twin[_View]):
    double = blocking(_View.double)


class _Client:
    def __init__(self) -> None:
        self.made = 0

    def run(self, make: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        coroutine = make()
        self.made += 1
        try:
            coroutine.send(None)
        except StopIteration as done:
            return done.value
        raise AssertionError("it waits")


def test_a_twin_calls_the_verb_that_its_view_has() -> None:
    client = _Client()
    assert _Twin(client, _View()).double(n=4) == 8
    assert _Twin(client, _Own()).double(4) == 80
    assert client.made == 2


async def test_no_coroutine_is_made_where_it_cannot_run() -> None:
    """An unawaited one would warn, and warnings are errors here."""
    app = App(auto_start=False)
    for verb in (app.blocking.workers, app.blocking.jobs.count, app.blocking.queues.list):
        with pytest.raises(InvalidArgument, match="await"):
            verb()
    assert core_of(app).loop() is None
