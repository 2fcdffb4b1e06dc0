"""The economy's HTTP service: outcomes, problems, who may ask, how much and how often (§16.120)."""

from __future__ import annotations

import asyncio
import base64
import json
import math
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from offpath.economy import Actor, Economy, Share, credits, drain_inbox
from offpath.economy.web import Asked, Offer, economy_service
from offpath.economy.webhooks import webhook_door
from offpath.errors import InvalidArgument, StoreUnavailable
from offpath.events import Verifier
from offpath.events.webhook.signature import signed_headers, signer
from tests.unit.economy.marketplace import Marketplace
from tests.unit.web.asgi import Answered, ask

SECRET = "whsec_" + base64.b64encode(b"k" * 32).decode()
ANN = {"authorization": "Bearer ann"}
BANK = {"authorization": "Bearer bank"}
TOP_UP = {"kind": "topUp", "key": "t-1", "user": "ann", "amount": "CREDIT:10.00", "source": "card"}
SPEND: dict[str, Any] = {
    "kind": "spend",
    "key": "s-1",
    "buyer": "ann",
    "orderId": "A-1",
    "sku": "song",
    "price": "CREDIT:4.00",
    "recipients": [{"seller": "sue", "bps": 10_000}],
}


OFFERS = {"song": Offer(price=credits(4), sellers=(Share("sue", 10_000),))}


def known(asked: Asked) -> Actor | None:
    name = asked.headers.get("authorization", "").removeprefix("Bearer ")
    return {"ann": Actor.user("ann"), "bank": Actor.system("bank")}.get(name)


@pytest.fixture
async def market() -> AsyncIterator[Marketplace]:
    made = Marketplace()
    async with made.app:
        yield made


@pytest.fixture
def economy(market: Marketplace) -> Economy:
    return market.economy


@pytest.fixture
def service(economy: Economy) -> Any:
    return economy_service(economy, authenticate=known, prices=OFFERS)


async def submit(service: Any, document: object, headers: dict[str, str] | None = None) -> Answered:
    return await ask(service, "POST", "/submit", json.dumps(document).encode(), headers)


async def test_an_outcome_is_200_whatever_it_is(service: Any) -> None:
    first = await submit(service, TOP_UP, BANK)
    assert (first.code, first.document["status"]) == (200, "committed")
    assert len(first.document["transaction"]["postings"]) == 2
    again = await submit(service, TOP_UP, BANK)
    assert again.document == {**first.document, "status": "duplicate"}
    spent = (await submit(service, SPEND, ANN)).document
    assert spent["status"] == "committed"
    assert spent["transaction"]["orderId"] == "user:ann:A-1"  # in her own namespace
    dear = {**SPEND, "key": "s-2", "orderId": "A-2", "price": "400"}
    declined = await submit(service, dear, BANK)
    assert declined.code == 200
    assert declined.document == {
        "status": "rejected",
        "reason": "INSUFFICIENT_FUNDS",
        "detail": {"account": "ann:spendable", "need": "CREDIT:400.00", "have": "CREDIT:6.00"},
    }


async def test_who_is_not_known_is_401_before_the_body_is_read(service: Any) -> None:
    refused = await ask(service, "POST", "/submit", b"\xff not read", {})
    assert refused.code == 401
    assert refused.headers["content-type"] == "application/problem+json"
    assert refused.document["code"] == "AUTH.UNAUTHORIZED"


async def test_a_user_may_not_do_what_users_may_not(service: Any) -> None:
    assert (await submit(service, TOP_UP, ANN)).code == 401
    other = await submit(service, {**SPEND, "buyer": "bob"}, ANN)
    assert (other.code, other.document["code"]) == (401, "AUTH.UNAUTHORIZED")


@pytest.mark.parametrize(
    ("document", "code"),
    [
        ({**SPEND, "actor": {"kind": "operator", "id": "me"}}, "OP.MALFORMED"),
        ({**SPEND, "extra": 1}, "OP.MALFORMED"),
        ({**SPEND, "kind": "mint"}, "OP.MALFORMED"),
        ({**SPEND, "recipients": [{"seller": "sue", "bps": 10_000, "tip": 1}]}, "OP.MALFORMED"),
        ({**SPEND, "price": 4}, "MONEY.INVALID_AMOUNT"),
        ({**SPEND, "price": "CREDIT:4.001"}, "MONEY.INVALID_AMOUNT"),
        ({**SPEND, "price": "CREDIT:-4.00"}, "MONEY.INVALID_AMOUNT"),
        ([SPEND], "OP.MALFORMED"),
        ({name: value for name, value in SPEND.items() if name != "sku"}, "OP.MALFORMED"),
    ],
)
async def test_what_cannot_be_meant_is_400(service: Any, document: object, code: str) -> None:
    refused = await submit(service, document, ANN)
    assert (refused.code, refused.document["code"]) == (400, code)
    assert refused.document["retryable"] is False


@pytest.mark.parametrize("body", [b"{", b"[" * 60_000, b"[" * 30_000 + b"]" * 30_000, b"\xff"])
async def test_no_json_is_400(service: Any, body: bytes) -> None:
    refused = await ask(service, "POST", "/submit", body, ANN)
    assert (refused.code, refused.document["code"]) == (400, "OP.MALFORMED")


async def test_a_key_of_another_operation_is_422(service: Any) -> None:
    await submit(service, TOP_UP, BANK)
    refused = await submit(service, {**TOP_UP, "amount": "CREDIT:11.00"}, BANK)
    assert (refused.code, refused.document["code"]) == (422, "OP.KEY_REUSED")


async def test_a_problem_tells_nothing_of_what_went_wrong(
    service: Any, economy: Economy, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(_: object, **__: object) -> None:
        raise StoreUnavailable("postgresql://ann:hunter2@db/prod is away")

    monkeypatch.setattr(economy, "submit", away)
    refused = await submit(service, TOP_UP, BANK)
    assert (refused.code, refused.document["retryable"]) == (503, True)
    assert b"hunter2" not in refused.body
    assert set(refused.document) == {"type", "title", "status", "code", "retryable"}

    async def broken(_: object, **__: object) -> None:
        raise RuntimeError("hunter2")

    monkeypatch.setattr(economy, "submit", broken)
    refused = await submit(service, TOP_UP, BANK)
    assert (refused.code, refused.document["code"]) == (500, "INTERNAL")
    assert b"hunter2" not in refused.body


async def test_a_large_body_is_413_and_a_slow_one_408(economy: Economy) -> None:
    service = economy_service(economy, authenticate=known, max_body_bytes=100)
    told = await ask(service, "POST", "/submit", b"x" * 101, {**ANN, "content-length": "101"})
    untold = await ask(service, "POST", "/submit", [b"x" * 60, b"x" * 60], ANN)
    assert (told.code, untold.code) == (413, 413)

    never = asyncio.Event()

    async def silent() -> dict[str, Any]:
        await never.wait()
        return {}

    hasty = economy_service(economy, authenticate=known, body_timeout=0.001)
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": "POST",
        "path": "/submit",
        "root_path": "",
        "query_string": b"",
        "headers": [(b"authorization", b"Bearer ann"), (b"content-type", b"application/json")],
    }
    await hasty(scope, silent, send)
    assert sent[0]["status"] == 408


async def test_a_caller_who_goes_is_no_fault_of_ours(
    economy: Economy, caplog: pytest.LogCaptureFixture
) -> None:
    async def gone() -> dict[str, Any]:
        return {"type": "http.disconnect"}

    async def send(_: object) -> None:
        pass

    headers = [(b"authorization", b"Bearer bank"), (b"content-type", b"application/json")]
    headers.append((b"content-length", b"100"))
    scope: dict[str, Any] = {"type": "http", "method": "POST", "path": "/submit", "root_path": ""}
    scope |= {"query_string": b"", "headers": headers}
    await economy_service(economy, authenticate=known)(scope, gone, send)
    assert [one for one in caplog.records if one.levelname == "ERROR"] == []


async def test_who_asks_too_often_is_429(economy: Economy) -> None:
    seen: list[Asked] = []

    async def limiter(asked: Asked) -> float | None:
        seen.append(asked)
        return 1.2 if len(seen) > 1 else None

    service = economy_service(economy, authenticate=known, rate_limit=limiter)
    assert (await submit(service, TOP_UP, BANK)).code == 200
    denied = await submit(service, TOP_UP, BANK)
    assert (denied.code, denied.headers["retry-after"]) == (429, "2")
    assert (seen[0].client, seen[0].path) == ("10.0.0.9", "/submit")


def _away() -> float:
    raise ConnectionError


@pytest.mark.parametrize("said", [_away, lambda: math.inf, lambda: math.nan, lambda: "soon"])
async def test_a_limiter_that_raises_lets_through_and_is_counted(
    economy: Economy, said: Any
) -> None:
    """So does one whose answer is not a time."""

    def limiter(_: Asked) -> float | None:
        return said()  # type: ignore[no-any-return]

    service = economy_service(economy, authenticate=known, rate_limit=limiter)
    assert (await submit(service, TOP_UP, BANK)).code == 200
    counter = economy.app.metrics.counter("offpath_economy_ratelimit_degraded_total")
    assert counter.read().value == 1


async def test_without_authentication_the_body_names_the_actor(economy: Economy) -> None:
    service = economy_service(economy, authenticate=False)
    named = {**TOP_UP, "actor": {"kind": "system", "id": "shop"}}
    assert (await submit(service, named)).document["status"] == "committed"
    assert (await submit(service, {**TOP_UP, "key": "t-2"})).code == 400


def test_forgetting_the_authenticator_is_refused(economy: Economy) -> None:
    with pytest.raises(InvalidArgument, match="authenticate=False"):
        economy_service(economy, authenticate=None)  # type: ignore[arg-type]  # the mistake


async def test_it_says_whether_it_is_alive_and_ready(
    service: Any, economy: Economy, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (await ask(service, "GET", "/healthz")).code == 200
    assert (await ask(service, "GET", "/readyz")).document == {"status": "ready"}

    async def away(_: str) -> None:
        raise StoreUnavailable("away")

    monkeypatch.setattr(economy.read, "balance", away)
    assert (await ask(service, "GET", "/readyz")).code == 503
    assert (await ask(service, "GET", "/healthz")).code == 200
    assert (await ask(service, "GET", "/elsewhere")).code == 404
    assert (await ask(service, "GET", "/submit")).code == 404


async def test_an_answer_can_be_found_again(service: Any) -> None:
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    parent = {"traceparent": f"00-{trace}-00f067aa0ba902b7-01", "x-request-id": "mine"}
    assert (await ask(service, "GET", "/healthz", headers=parent)).headers["x-request-id"] == trace
    mine = await ask(service, "GET", "/healthz", headers={"x-request-id": "mine-1"})
    assert mine.headers["x-request-id"] == "mine-1"
    forged = await ask(service, "GET", "/healthz", headers={"x-request-id": "a b\r\nc"})
    assert len(forged.headers["x-request-id"]) == 36


async def test_an_event_carries_the_id_of_the_request_that_caused_it(
    service: Any, economy: Economy
) -> None:
    """§14: stored on the outbox row."""
    answered = await submit(service, TOP_UP, {**BANK, "x-request-id": "req-7"})
    assert answered.headers["x-request-id"] == "req-7"
    again = await submit(service, {**TOP_UP, "key": "t-2"}, BANK)
    found = (await economy.app.messages.find(box="out")).items
    carried = {json.loads(one.headers)["correlation_id"] for one in found}
    assert carried == {"req-7", again.headers["x-request-id"]}


async def test_other_origins_are_not_let_in_unless_listed(economy: Economy) -> None:
    origin = {"origin": "https://shop.example"}
    closed = economy_service(economy, authenticate=known)
    assert "access-control-allow-origin" not in (await submit(closed, TOP_UP, origin)).headers
    opened = economy_service(economy, authenticate=known, cors_origins=["https://shop.example"])
    allowed = await submit(opened, TOP_UP, {**BANK, **origin})
    assert allowed.headers["access-control-allow-origin"] == "https://shop.example"


async def test_it_describes_itself(service: Any) -> None:
    described = (await ask(service, "GET", "/openapi.json")).document
    schemas = described["components"]["schemas"]
    assert described["openapi"] == "3.1.0"
    assert schemas["Spend"]["properties"]["price"] == {"$ref": "#/components/schemas/Money"}
    assert "actor" not in schemas["Spend"]["properties"]
    assert set(SPEND) == set(schemas["Spend"]["properties"]) - {"giftTo", "promo"}
    assert "recipients" not in schemas["Spend"]["required"]  # the shop says who earns
    mapping = described["paths"]["/submit"]["post"]["requestBody"]["content"]["application/json"]
    assert len(mapping["schema"]["oneOf"]) == 17
    period = schemas["Subscribe"]["properties"]["period"]
    seconds = {"type": "number", "description": "seconds"}
    assert period == {"anyOf": [seconds, {"type": "string"}]}
    assert "429" in described["paths"]["/webhooks/{provider}"]["post"]["responses"]
    assert "\n " not in schemas["Clawback"]["description"]


# -- webhooks ------------------------------------------------------------------------------------

EVENT = {"type": "purchase", "data": {"user": "ann", "amount": "CREDIT:5.00", "source": "card"}}


async def report(
    market: Marketplace,
    event: object,
    *,
    age: float = 0.0,
    secret: str = SECRET,
    headers: dict[str, str] | None = None,
    rate_limit: Any = None,
) -> Answered:
    door = webhook_door(market.economy, "acme", verifier=Verifier(SECRET, clock=market.clock))
    service = economy_service(
        market.economy, authenticate=known, webhooks={"acme": door}, rate_limit=rate_limit
    )
    body = json.dumps(event).encode()
    at = market.clock.now() - timedelta(seconds=age)
    signed = signed_headers("evt_1", at, body, [signer(secret)])
    return await ask(service, "POST", "/webhooks/acme", body, {**(headers or {}), **signed})


async def test_a_report_is_kept_once_and_applied_later(market: Marketplace) -> None:
    """§16.87: delivered twice, it credits once."""
    assert (await report(market, EVENT)).code == 202
    again = await report(market, EVENT)
    assert (again.code, again.document["status"]) == (200, "duplicate")
    repeats = market.app.metrics.counter("offpath_economy_webhook_duplicates_total")
    assert repeats.read().value == 1
    assert str(await market.economy.read.balance("ann:spendable")) == "CREDIT:0.00"
    assert len((await drain_inbox(market.economy)).applied) == 1
    assert str(await market.economy.read.balance("ann:spendable")) == "CREDIT:5.00"


async def test_a_forged_or_stale_report_leaves_its_id_free(market: Marketplace) -> None:
    """§16.87 and §16.120, with the right values: 401, and the real one is accepted."""
    forged = "whsec_" + base64.b64encode(b"x" * 32).decode()
    assert (await report(market, EVENT, secret=forged)).code == 401
    assert (await report(market, EVENT, age=301)).code == 401
    assert (await report(market, EVENT)).code == 202


async def test_events_of_others_are_ignored_and_broken_ones_refused(market: Marketplace) -> None:
    assert (await report(market, {"type": "weather", "data": {}})).document["status"] == "ignored"
    assert (await report(market, {"type": "purchase", "data": {}})).code == 400
    assert (await report(market, {"type": "purchase"})).code == 400
    assert (await report(market, [])).code == 400
    assert (await report(market, EVENT)).code == 202


@pytest.mark.parametrize(
    ("type_", "data", "code"),
    [
        ("purchase", {"user": "ann", "amount": "CREDIT:0.00"}, "MONEY.INVALID_AMOUNT"),
        ("purchase", {"user": "ann", "amount": "USD:5.00"}, "MONEY.INVALID_AMOUNT"),
        ("purchase", {"user": "a:b", "amount": "CREDIT:5.00"}, "OP.MALFORMED"),
        ("purchase", {"user": 7, "amount": "CREDIT:5.00"}, "OP.MALFORMED"),
        ("dispute", {"user": "ann", "amount": "CREDIT:5.00", "orderId": ""}, "OP.MALFORMED"),
        ("payoutSettled", {"payoutId": "", "providerRef": "r"}, "OP.MALFORMED"),
    ],
)
async def test_a_report_that_can_never_be_applied_is_refused_at_the_door(
    market: Marketplace,
    caplog: pytest.LogCaptureFixture,
    type_: str,
    data: dict[str, object],
    code: str,
) -> None:
    refused = await report(market, {"type": type_, "data": {"source": "card", **data}})
    assert (refused.code, refused.document) == (400, {"status": "refused", "reason": code})
    assert "webhook acme" in caplog.text
    assert await market.app.store().message_backlog(limit=10) == []
    assert (await report(market, EVENT)).code == 202  # the id is free for one that can


async def test_a_door_answers_with_the_requests_id_whatever_it_answers(market: Marketplace) -> None:
    named = {"x-request-id": "req-7"}
    forged = "whsec_" + base64.b64encode(b"x" * 32).decode()
    answers = [
        await report(market, EVENT, headers=named, secret=forged),
        await report(market, EVENT, headers=named, rate_limit=lambda _: 3.0),
        await report(market, {"type": "weather", "data": {}}, headers=named),
        await report(market, EVENT, headers=named),
        await report(market, EVENT, headers=named),
    ]
    assert [one.code for one in answers] == [401, 429, 200, 202, 200]
    assert {one.headers["x-request-id"] for one in answers} == {"req-7"}
    minted = await report(market, EVENT, headers={"x-request-id": "a b"})
    assert len(minted.headers["x-request-id"]) == 36


@pytest.mark.parametrize("given", [{"x-request-id": "req-7"}, {}])
async def test_what_a_report_causes_carries_the_id_of_its_request(
    market: Marketplace, given: dict[str, str]
) -> None:
    answered = await report(market, EVENT, headers=given)
    await drain_inbox(market.economy)
    found = await market.app.messages.find(box="out")
    assert [json.loads(one.headers) for one in found.items] == [
        {"correlation_id": answered.headers["x-request-id"]}
    ]


async def test_a_door_of_its_own_passes_an_id_on_too(market: Marketplace) -> None:
    door = webhook_door(market.economy, "acme", verifier=Verifier(SECRET, clock=market.clock))
    body = json.dumps(EVENT).encode()
    signed = signed_headers("evt_1", market.clock.now(), body, [signer(SECRET)])
    answered = await ask(door, "POST", "/", body, {**signed, "x-request-id": "req-8"})
    assert answered.code == 202
    await drain_inbox(market.economy)
    [told] = (await market.app.messages.find(box="out")).items
    assert json.loads(told.headers) == {"correlation_id": "req-8"}


async def test_no_such_provider_is_404(service: Any) -> None:
    assert (await ask(service, "POST", "/webhooks/nobody", b"{}")).code == 404
