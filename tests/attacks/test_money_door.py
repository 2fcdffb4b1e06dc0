"""The HTTP door of an economy, as a user's own token and a stranger's web page find it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest
from msgspec.structs import replace

from offpath import App
from offpath.economy import Actor, Rejected, Share, Spend, Subscribe, credits
from offpath.economy.ledger.operations.families import Operation
from offpath.economy.web import Asked, Offer, economy_service
from offpath.errors import InvalidArgument
from offpath.events.webhook.signature import BadSignature
from offpath.model.ledger.faults import MalformedOperation
from tests.unit.economy.marketplace import BANK, Marketplace, committed
from tests.unit.web.asgi import Answered, ask

ANN = {"authorization": "Bearer ann"}
BOB = {"authorization": "Bearer bob"}
SHOP = {"authorization": "Bearer shop"}
OFFERS = {
    "song": Offer(price=credits(4), sellers=(Share("sue", 10_000),)),
    "gift": Offer(price=credits(4), sellers=(Share("sue", 10_000),), promo=True),
    "club": Offer(price=credits(9), sellers=(Share("sue", 10_000),), period=60.0),
    "many": Offer(price=credits(9), sellers=(Share("a", 5_000), Share("b", 5_000)), period=60.0),
}
SONG: dict[str, Any] = {
    "kind": "spend",
    "key": "s-1",
    "buyer": "ann",
    "orderId": "A-1",
    "sku": "song",
    "price": "CREDIT:4.00",
}
CLUB: dict[str, Any] = {
    "kind": "subscribe",
    "key": "c-1",
    "user": "ann",
    "seller": "whoever",
    "sku": "club",
    "price": "CREDIT:9.00",
    "period": 60,
}
TOP_UP = {"kind": "topUp", "key": "t-1", "user": "ann", "amount": "CREDIT:10.00", "source": "card"}
PAGE = {"origin": "https://evil.example", "sec-fetch-site": "cross-site"}


def known(asked: Asked) -> Actor | None:
    name = asked.headers.get("authorization", "").removeprefix("Bearer ")
    return Actor.system("shop") if name == "shop" else Actor.user(name) if name else None


@pytest.fixture
async def market() -> AsyncIterator[Marketplace]:
    made = Marketplace()
    async with made.app:
        committed(await made.top_up("ann", credits(100)))
        committed(await made.top_up("bob", credits(100)))
        yield made


def service(market: Marketplace, **given: Any) -> Any:
    return economy_service(market.economy, authenticate=known, **given)


async def submit(app: Any, document: Mapping[str, Any], who: Mapping[str, str] = ANN) -> Answered:
    return await ask(app, "POST", "/submit", json.dumps(document).encode(), who)


# -- what a user's token may do ----------------------------------------------------------------


@pytest.mark.parametrize("asked", [SONG | {"recipients": [{"seller": "bob", "bps": 10_000}]}, CLUB])
async def test_nothing_is_taken_from_users_unless_the_shop_decides(
    market: Marketplace, asked: dict[str, Any]
) -> None:
    shop = service(market)
    refused = (await submit(shop, asked)).document
    assert (refused["status"], refused["reason"]) == ("rejected", "NOT_AUTHORIZED")
    assert "authorize" in refused["detail"]["hint"]
    assert await market.balance("ann:spendable") == 10_000
    assert (await submit(shop, TOP_UP, SHOP)).document["status"] == "committed"


@pytest.mark.parametrize(
    "forged",
    [
        {"price": "CREDIT:0.01"},
        {"price": "CREDIT:5.00"},
        {"sku": "licence"},
        {"sku": "club"},
        {"sku": "song "},
    ],
)
async def test_a_user_names_no_price_and_no_thing_that_is_not_for_sale(
    market: Marketplace, forged: dict[str, Any]
) -> None:
    answer = (await submit(service(market, prices=OFFERS), SONG | forged)).document
    assert answer["reason"] in {"PRICE_CHANGED", "NOT_FOR_SALE"}
    assert await market.balance("ann:spendable") == 10_000


async def test_a_changed_price_says_what_it_is_now(market: Marketplace) -> None:
    answer = (await submit(service(market, prices=OFFERS), SONG | {"price": "3"})).document
    assert answer["detail"] == {"sku": "song", "price": "CREDIT:4.00"}


async def test_who_earns_is_the_shops_word_alone(market: Marketplace) -> None:
    shop = service(market, prices=OFFERS)
    mine = SONG | {"recipients": [{"seller": "bob", "bps": 10_000}]}
    assert (await submit(shop, mine)).document["status"] == "committed"
    assert (await submit(shop, CLUB)).document["status"] == "committed"
    assert await market.balance("bob:earned") == await market.balance("whoever:earned") == 0
    assert await market.balance("sue:earned") > 0


async def test_no_user_takes_an_id_of_another_or_of_the_shops(market: Marketplace) -> None:
    """Orders and keys are in the user's namespace, whatever he calls them."""
    shop = service(market, prices=OFFERS)
    for who, buyer in ((ANN, "ann"), (BOB, "bob")):
        done = (await submit(shop, SONG | {"buyer": buyer}, who)).document
        assert done["status"] == "committed"
        assert done["transaction"]["orderId"] == f"user:{buyer}:A-1"
    squatted = {**TOP_UP, "key": "s-1", "user": "cat"}
    assert (await submit(shop, squatted, SHOP)).document["status"] == "committed"
    own = SONG | {"key": "shop-1", "recipients": [{"seller": "sue", "bps": 10_000}]}
    assert (await submit(shop, own, SHOP)).document["transaction"]["orderId"] == "A-1"
    assert (await submit(shop, SONG)).document["status"] == "duplicate"


@pytest.mark.parametrize("name", ["a:b", "platform", " ", "a\u202eb", "user:ann"])
async def test_a_user_whose_id_is_none_has_no_namespace(market: Marketplace, name: str) -> None:
    shop = economy_service(market.economy, authenticate=lambda _: Actor.user(name), prices=OFFERS)
    assert (await submit(shop, SONG)).document["code"] == "OP.MALFORMED"


async def test_promo_credits_earn_nobody_anything_unless_the_shop_says_so(
    market: Marketplace,
) -> None:
    """A user who is given credits to try cannot make money of them by buying from a friend."""
    committed(await market.promo("ann", credits(50)))
    shop = service(market, prices=OFFERS)
    asked = SONG | {"promo": True}
    assert (await submit(shop, asked)).document["status"] == "committed"
    assert await market.balance("ann:promo") == 5_000
    allowed = SONG | {"key": "s-2", "orderId": "A-2", "sku": "gift"}
    assert (await submit(shop, allowed)).document["status"] == "committed"
    assert await market.balance("ann:promo") == 4_600
    assert (await submit(shop, CLUB | {"promo": True})).document["status"] == "committed"
    assert await market.balance("ann:promo") == 4_600


@pytest.mark.parametrize(
    "asked",
    [
        TOP_UP,
        {"kind": "refund", "key": "r", "orderId": "user:ann:A-1"},
        {"kind": "adjust", "key": "a", "account": "ann:spendable", "amount": "9", "reason": "me"},
        SONG | {"buyer": "bob"},
        CLUB | {"user": "bob"},
        {"kind": "requestPayout", "key": "p", "user": "bob", "amount": "9"},
    ],
)
async def test_what_is_no_users_to_ask_stays_so(market: Marketplace, asked: dict[str, Any]) -> None:
    refused = await submit(service(market, prices=OFFERS), asked)
    assert (refused.code, refused.document["code"]) == (401, "AUTH.UNAUTHORIZED")


async def test_a_user_may_ask_for_his_payout_and_cancel_what_is_his(market: Marketplace) -> None:
    shop = service(market, prices=OFFERS)
    begun = (await submit(shop, CLUB)).document["transaction"]
    cancel = {"kind": "cancelSubscription", "key": "x", "subscriptionId": begun["subscriptionId"]}
    assert (await submit(shop, cancel, BOB)).code == 401
    assert (await submit(shop, cancel)).document["status"] == "committed"
    payout = {"kind": "requestPayout", "key": "p", "user": "ann", "amount": "9"}
    assert (await submit(shop, payout)).document["reason"] == "INSUFFICIENT_FUNDS"


async def test_the_shops_own_function_decides_and_sees_what_is_namespaced(
    market: Marketplace,
) -> None:
    seen: list[Operation] = []

    async def authorize(actor: Actor, asked: Operation) -> Operation | Rejected:
        seen.append(asked)
        if not isinstance(asked, Spend):
            return Rejected("CLOSED", {"who": actor.id})
        return replace(asked, price=credits(1), recipients=(Share("tom", 10_000),))

    shop = service(market, authorize=authorize)
    sold = (await submit(shop, SONG | {"price": "99"})).document
    assert sold["status"] == "committed"
    assert await market.balance("ann:spendable") == 9_900
    first = seen[0]
    assert isinstance(first, Spend)
    assert (first.key, first.order_id) == ("user:ann:s-1", "user:ann:A-1")
    assert (first.recipients, first.promo) == ((), False)
    closed = (await submit(shop, CLUB)).document
    assert (closed["reason"], closed["detail"]) == ("CLOSED", {"who": "ann"})


async def test_a_function_that_forgets_to_answer_sells_nothing(market: Marketplace) -> None:
    shop = service(market, authorize=lambda _actor, _asked: None)
    assert (await submit(shop, SONG)).code == 500
    assert await market.balance("ann:spendable") == 10_000


async def test_a_subscription_has_the_offers_period_and_one_seller(market: Marketplace) -> None:
    async def offer(sku: str) -> Offer | None:
        return OFFERS.get(sku)

    shop = service(market, prices=offer)
    assert (await submit(shop, CLUB | {"period": 6e6})).document["reason"] == "PRICE_CHANGED"
    assert (await submit(shop, CLUB | {"sku": "song"})).document["reason"] == "NOT_FOR_SALE"
    assert (await submit(shop, CLUB | {"sku": "many"})).code == 500
    assert (await submit(shop, CLUB)).document["status"] == "committed"


async def test_who_trusts_callers_says_so(market: Marketplace) -> None:
    own = SONG | {"price": "CREDIT:0.01", "recipients": [{"seller": "bob", "bps": 10_000}]}
    done = (await submit(service(market, trust_callers=True), own)).document
    assert (done["status"], done["transaction"]["orderId"]) == ("committed", "A-1")


def test_what_decides_is_said_once(market: Marketplace) -> None:
    with pytest.raises(InvalidArgument, match="not both"):
        service(market, prices=OFFERS, authorize=lambda _actor, asked: asked)
    with pytest.raises(InvalidArgument, match="authorize is a function"):
        service(market, authorize="song")
    with pytest.raises(InvalidArgument, match="prices maps"):
        service(market, prices=["song"])


# -- what a page has a browser send --------------------------------------------------------------

NAMED = {**TOP_UP, "actor": {"kind": "system", "id": "shop"}}


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({"content-type": "text/plain"}, "BODY_NOT_JSON"),
        ({"content-type": "application/x-www-form-urlencoded"}, "BODY_NOT_JSON"),
        ({"content-type": "multipart/form-data; boundary=x"}, "BODY_NOT_JSON"),
        ({"content-type": ""}, "BODY_NOT_JSON"),
        (PAGE, "ORIGIN.FOREIGN"),
        ({"origin": "https://evil.example"}, "ORIGIN.FOREIGN"),
        ({"origin": "null"}, "ORIGIN.FOREIGN"),
        ({"origin": "http://[::1"}, "ORIGIN.FOREIGN"),
        ({"sec-fetch-site": "same-site"}, "ORIGIN.FOREIGN"),
        ({"origin": "http://localhost:8000"}, "ORIGIN.FOREIGN"),
        ({"host": "evil.example", "origin": "http://evil.example"}, "HOST.NOT_LOOPBACK"),
        ({"host": "localhost.evil.example"}, "HOST.NOT_LOOPBACK"),
        ({"host": "127.0.0.1.nip.io"}, "HOST.NOT_LOOPBACK"),
        ({"host": "10.0.0.9"}, "HOST.NOT_LOOPBACK"),
        ({"host": ""}, "HOST.NOT_LOOPBACK"),
        ({"host": "[::1"}, "HOST.NOT_LOOPBACK"),
    ],
)
async def test_no_page_of_a_stranger_makes_credits(
    market: Marketplace, headers: dict[str, str], code: str
) -> None:
    """Also where nobody is asked who he is: the visitor's browser reaches what he reaches."""
    local = economy_service(market.economy, authenticate=False)
    refused = await submit(local, NAMED, headers)
    assert (refused.code, refused.document["code"]) == (415 if "JSON" in code else 403, code)
    assert await market.balance("ann:spendable") == 10_000


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"host": "127.0.0.1:8000", "content-type": "application/json; charset=utf-8"},
        {"host": "[::1]:8000", "content-type": "application/vnd.shop+json"},
        {"host": "localhost:8000", "origin": "http://localhost:8000"},
        {"host": "shop.localhost", "sec-fetch-site": "same-origin"},
    ],
)
async def test_programs_and_its_own_pages_are_let_in(
    market: Marketplace, headers: dict[str, str]
) -> None:
    local = economy_service(market.economy, authenticate=False)
    assert (await submit(local, NAMED, headers)).document["status"] == "committed"


async def test_a_listed_origin_is_let_in_and_all_of_them_only_with_credentials(
    market: Marketplace,
) -> None:
    shop = service(market, prices=OFFERS, cors_origins=["https://shop.example"])
    page = {"origin": "https://shop.example", "sec-fetch-site": "cross-site"}
    assert (await submit(shop, SONG, ANN | page)).document["status"] == "committed"
    assert (await submit(shop, SONG, ANN | PAGE)).code == 403
    with pytest.raises(InvalidArgument, match="every page"):
        economy_service(market.economy, authenticate=False, cors_origins=["*"])


async def test_a_page_posts_nothing_to_an_inbox_either() -> None:
    def anybody(_: bytes, headers: Mapping[str, str]) -> str:
        if "webhook-id" not in headers:
            raise BadSignature("it has no id", reason="missing")
        return headers["webhook-id"]

    async with App("memory://", auto_start=False) as app:
        door = app.inbox_door("bank", verifier=anybody)
        refused = await ask(door, "POST", "/", b"{}", {"webhook-id": "1", **PAGE})
        assert (refused.code, refused.document["reason"]) == (403, "foreign_origin")
        assert (await ask(door, "POST", "/", b"{}", {"webhook-id": "1"})).code == 202


# -- bytes that are not text ----------------------------------------------------------------------


async def test_bytes_that_are_no_utf_8_are_the_callers_fault(market: Marketplace) -> None:
    body = b'{"kind": "spend", "key": "\xff"}'
    refused = await ask(service(market, prices=OFFERS), "POST", "/submit", body, ANN)
    assert (refused.code, refused.document["code"]) == (400, "OP.MALFORMED")
    door = market.app.inbox_door("bank", verifier=lambda _body, _headers: "1")
    assert (await ask(door, "POST", "/", body)).code == 400


async def test_a_subscription_through_python_keeps_promo_credits_if_told_to(
    market: Marketplace,
) -> None:
    committed(await market.promo("ann", credits(50)))
    asked: dict[str, Any] = {"actor": BANK, "user": "ann", "seller": "sue", "sku": "x"}
    club = Subscribe(key="k", price=credits(9), period=9.0, promo=False, **asked)
    committed(await market.economy.submit(club))
    assert await market.balance("ann:promo") == 5_000


# -- ids that look like others -------------------------------------------------------------------

HIDDEN = ["\u200b", "\u202e", "\u2066", "\ufeff", "\u00ad", "\x85", "\x7f", "\t", "\U000e0041"]


@pytest.mark.parametrize("hidden", HIDDEN)
@pytest.mark.parametrize("field", ["buyer", "seller", "sku", "order_id", "key", "gift_to", "actor"])
async def test_no_id_has_a_character_that_nobody_sees(
    market: Marketplace, field: str, hidden: str
) -> None:
    """Two ids that look alike would be two: a buyer pays another seller than he reads."""
    name = f"an{hidden}n"
    given = {"seller": (Share(name, 10_000),), "actor": Actor.system(name)}.get(field, name)
    fields: dict[str, Any] = {"actor": BANK, "recipients": (Share("sue", 10_000),)}
    fields |= {"key": "k", "buyer": "ann", "order_id": "A", "sku": "song"}
    fields["recipients" if field == "seller" else field] = given
    with pytest.raises(MalformedOperation):
        await market.economy.submit(Spend(price=credits(1), **fields))
    await market.sound()


@pytest.mark.parametrize("name", ["zoë", "小明", "Ω-7", "нина", "a.b@c", "👩"])
async def test_letters_of_all_scripts_are_ids(market: Marketplace, name: str) -> None:
    committed(await market.top_up(name, credits(1)))
    committed(await market.spend(name, credits(1), sku=name))
