"""The answers of type checkers about events: names that are loaded late have their types all the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_type

import offpath
from offpath.events import Verifier
from offpath import App
from offpath.events import (
    BadSignature,
    Incoming,
    LogEvent,
    Outbox,
    RoutedEvent,
    Router,
    RouterRun,
    Verifier,
    new_key_pair,
    new_secret,
)

app = App()

assert_type(new_secret(), str)
assert_type(new_key_pair(), tuple[str, str])
assert_type(Verifier("whsec_"), Verifier)
assert_type(Verifier("whsec_").verify(b"", {}), str)
assert_type(BadSignature("no", reason="no_match").reason, str)
Verifier(5)  # type: ignore[arg-type]
offpath.Verifire  # type: ignore[attr-defined]

router = app.router("iu", domain="iu", start="beginning")
assert_type(router, Router)
router.route(type="paid", deliver=Outbox("iu"))


@router.route(type="moved")
async def moved(event: RoutedEvent) -> None:
    assert_type(event.key, str | None)


async def read(after: int, limit: int) -> list[LogEvent]:
    return []


app.router("mine", domain="mine", start=0, read=read)


async def runs() -> None:
    assert_type(await router.run_once(), RouterRun)


def verify(body: bytes, headers: Mapping[str, str]) -> str:
    return headers["x-id"]


def key(incoming: Incoming) -> str:
    return incoming.headers["x-id"]


app.inbox_door("bank", verifier=Verifier("whsec_"))
app.inbox_door("bank", verifier=verify, key=key, keep_headers=["x-kind"])
app.inbox_door("bank", verifier="whsec_")  # type: ignore[arg-type]
