"""Values of every kind, in every place that has some, through a worker, by codecs that differ."""

from __future__ import annotations

import base64
import builtins
import operator
import pickle
import types
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import msgspec
import pytest

import offpath
from offpath import App, Context, JobState, Plan
from offpath.errors import GroupValueError
from offpath.runtime.clock import ManualClock
from offpath.runtime.codec import Codec, JsonCodec
from offpath.store.protocol import Store

pytestmark = pytest.mark.needs("workflows")


class Money:
    """A type that msgspec knows nothing of."""

    def __init__(self, amount: str, currency: str) -> None:
        self.amount, self.currency = Decimal(amount), currency

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Money) and vars(other) == vars(self)

    def __hash__(self) -> int:
        return hash((self.amount, self.currency))

    def __add__(self, other: Money) -> Money:
        return Money(str(self.amount + other.amount), self.currency)

    def __str__(self) -> str:
        return f"{self.amount} {self.currency}"

    @classmethod
    def parse(cls, text: str) -> Money:
        return cls(*text.split())


@dataclass(frozen=True)
class Order:
    number: int
    total: Decimal
    day: date


class Pickled:
    """A codec whose text is not JSON, and that takes what nobody else does."""

    def encode(self, value: Any) -> str:
        plain = msgspec.structs.asdict(value) if isinstance(value, msgspec.Struct) else value
        return base64.b85encode(pickle.dumps(plain)).decode()

    def decode(self, text: str, type: Any) -> Any:  # noqa: A002 - the protocol's word
        value = pickle.loads(base64.b85decode(text))
        if isinstance(type, builtins.type) and issubclass(type, msgspec.Struct):
            return type(**value)
        return value


class Packed:
    """MessagePack in text, as a codec for one task may be."""

    def encode(self, value: Any) -> str:
        return base64.b64encode(msgspec.msgpack.encode(value)).decode()

    def decode(self, text: str, type: Any) -> Any:  # noqa: A002 - the protocol's word
        return msgspec.msgpack.decode(base64.b64decode(text), type=type)


def taught() -> JsonCodec:
    return JsonCodec(types={Money: (str, Money.parse)})


MONEY = Money("9.90", "EUR")
KINDS: dict[str, tuple[Any, Any]] = {
    "a taught type": (Money, MONEY),
    "a list of a taught type": (list[Money], [MONEY, Money("1", "EUR")]),
    "a dict of a taught type": (dict[str, Money], {"net": MONEY}),
    "a dataclass": (Order, Order(7, Decimal("1.10"), date(2026, 2, 3))),
    "a number": (int, 7),
    "a text": (str, 'say "hi"\n'),
    "bytes": (bytes, b"\xff\x00"),
    "a moment": (datetime, datetime(2026, 2, 3, 4, 5, tzinfo=UTC)),
    "an id": (UUID, UUID(int=7)),
    "a set": (set[int], {1, 2}),
}
PLAIN = [name for name in KINDS if "taught" not in name]
"""Types that a task may take whose codec teaches none."""

CODECS: dict[str, Codec] = {"taught JSON": taught(), "MessagePack": Packed(), "pickle": Pickled()}


@pytest.fixture
async def app(store: Store, clock: ManualClock) -> AsyncIterator[App]:
    async with App(store=store, clock=clock, auto_start=False) as made:
        yield made


@pytest.fixture
async def taught_app(store: Store, clock: ManualClock) -> AsyncIterator[App]:
    async with App(store=store, clock=clock, auto_start=False, codec=taught()) as made:
        yield made


class Places:
    """One task whose values are of one type, and where they have been seen."""

    def __init__(self, app: App, codec: Codec | None, kind: str) -> None:
        self.kind = kind
        self.type, self.value = KINDS[kind]
        self.seen: dict[str, Any] = {}
        own: Any = {} if codec is None else {"codec": codec}
        self.leaf = app.task(name=f"leaf of {kind}", **own)(self._leaf())
        self.check = app.task(name=f"check of {kind}")(self._check())
        self.lead = app.task(name=f"lead of {kind}", **own)(self._lead())

    def _leaf(self) -> Any:
        async def leaf(ctx: Context, one: Any, several: Any) -> Any:
            self.seen["argument"], self.seen["several"] = one, several
            self.seen["step"] = await ctx.step("fetch", fetch)
            return one

        def fetch() -> Any:
            return self.value

        fetch.__annotations__["return"] = self.type
        leaf.__annotations__ |= {"one": self.type, "return": self.type}
        leaf.__annotations__["several"] = types.GenericAlias(list, (self.type,))
        return leaf

    def _check(self) -> Any:
        async def check(_: Context, part: str) -> None:
            self.seen["behind a gate"] = await self.leaf.handle(part).result()

        return check

    def _lead(self) -> Any:
        async def lead(ctx: Context) -> Any:
            part = self.leaf.job(self.value, [self.value])
            return ctx.queue(part, offpath.gate(on=[part], queue=[self.check.job(part.id)]))

        lead.__annotations__["return"] = types.GenericAlias(Plan, (None, self.type))
        return lead

    async def went_through(self, app: App) -> bool:
        """True if the value came back from each place as it was."""
        lone, led = await self.leaf.enqueue(self.value, [self.value]), await self.lead.enqueue()
        await app.worker().run_until_idle()
        back = [*self.seen.values(), await lone.result(), await lone, await led]
        several = back.pop(list(self.seen).index("several"))
        assert self.seen.keys() == {"argument", "several", "step", "behind a gate"}
        assert [several, *back] == [[self.value], *[self.value] * 6], self.kind
        assert {type(one) for one in back} == {type(self.value)}, self.kind
        return await led.result() is None


@pytest.mark.parametrize("codec", [*CODECS, "the app"])
async def test_a_value_comes_back_in_every_place(app: App, taught_app: App, codec: str) -> None:
    on = taught_app if codec == "the app" else app
    known = KINDS if "JSON" in codec or codec == "the app" else PLAIN
    for kind in known:
        assert await Places(on, CODECS.get(codec), kind).went_through(on)


async def test_a_signal_is_read_by_the_codec_of_the_app(taught_app: App) -> None:
    seen: list[Any] = []

    @taught_app.task(codec=Pickled())
    async def wait(ctx: Context, kind: str) -> None:
        seen.append(await ctx.wait_for("told", type=KINDS[kind][0]) == KINDS[kind][1])

    for kind, (_, value) in KINDS.items():
        await taught_app.signal(await wait.enqueue(kind), "told", value)
    await taught_app.worker().run_until_idle()
    assert seen == [True] * len(KINDS)


def _adders(app: App) -> list[Any]:
    """One task for each codec, all of which add to their group's value."""

    def adder(name: str) -> Any:
        own: Any = {"codec": CODECS[name]} if name in CODECS else {}

        async def add(ctx: Context, number: int) -> Plan[int, int]:
            return ctx.result(number, append=operator.add)

        return app.task(name=f"add by {name}", **own)(add)

    return [adder(name) for name in ("the app", *CODECS)]


@pytest.mark.parametrize("root", ["the app", *CODECS])
async def test_members_of_all_codecs_fold_one_value(app: App, root: str) -> None:
    adders = _adders(app)
    own: Any = {"codec": CODECS[root]} if root in CODECS else {}

    async def lead(ctx: Context) -> Plan[None, int]:
        return ctx.queue(*(task.job(10**n) for n, task in enumerate(adders * 2)))

    handle = await app.task(**own)(lead).enqueue()
    await app.worker().run_until_idle()
    assert await handle == 11_111_111
    found = await app.groups.get(handle.id)
    assert (found.value, found.fault, found.failed) == (11_111_111, None, 0)


def _gives(app: App, writer: str, root: str, *, final: bool) -> Any:
    """A task by one codec, whose group is given 0, 1 and 2 by jobs of another codec."""

    def named(word: str, codec: str) -> Any:
        own: Any = {"codec": CODECS[codec]} if codec in CODECS else {}
        return app.task(name=f"{word}: {writer}, {root}, {final}", **own)

    @named("give", writer)
    async def give(ctx: Context, number: int) -> Plan[int, int]:
        return ctx.result(number, final=final)

    @named("lead", root)
    async def lead(ctx: Context) -> Plan[None, int]:
        first, second = give.job(1), give.job(2)
        return ctx.queue(ctx.result(0), first).next(second)

    return lead


@pytest.mark.parametrize("root", ["the app", *CODECS])
async def test_the_value_is_read_by_the_codec_of_who_gave_it(app: App, root: str) -> None:
    for writer in ("the app", *CODECS):
        last = await _gives(app, writer, root, final=False).enqueue()
        first = await _gives(app, writer, root, final=True).enqueue()
        await app.worker().run_until_idle()
        assert (writer, await last, await first) == (writer, 2, 1)


async def test_a_batch_of_a_codec_of_its_own_gives_values(app: App) -> None:
    @app.batch_task(size=10, codec=Packed())
    def double(numbers: list[int]) -> list[int]:
        return [2 * number for number in numbers]

    @app.task
    async def lead(ctx: Context) -> Plan[None, Any]:
        return ctx.queue(double.job(4))

    lone, led = await double.enqueue(3), await lead.enqueue()
    await app.worker().run_until_idle()
    assert (await lone, await lone.result(), await led) == (6, 6, 8)


async def test_who_does_not_know_the_writer_is_told_its_name(app: App, taught_app: App) -> None:
    @app.task(codec=Pickled())
    async def give() -> int:
        return 3

    async def lead(ctx: Context) -> Plan[None, Any]:
        return ctx.queue(app.tasks["give"].job())

    handle = await app.task(lead).enqueue()
    await app.worker().run_until_idle()
    stranger = taught_app.task(lead).handle(handle.id)
    with pytest.raises(GroupValueError, match="'give' gave this value in a codec of its own"):
        await stranger
    found = await taught_app.groups.get(handle.id)
    assert (found.value, found.failed, found.done) == (None, 0, True)
    assert found.fault is not None
    assert "'give'" in found.fault


async def test_a_fold_over_a_stranger_s_value_harms_the_value_alone(
    app: App, taught_app: App
) -> None:
    async def give() -> int:
        return 3

    async def add(ctx: Context) -> Plan[int, int]:
        return ctx.result(4, append=operator.add)

    first, second = app.task(codec=Pickled())(give), app.task(queue="other")(add)

    @app.task
    async def lead(ctx: Context) -> Plan[None, int]:
        return ctx.queue(first.job(), second.job())

    handle = await lead.enqueue()
    await app.worker(queues=["default"]).run_until_idle()
    taught_app.task(queue="other")(add)
    await taught_app.worker(queues=["other"]).run_until_idle()
    with pytest.raises(GroupValueError, match=r"could not be folded: task 'give'"):
        await handle
    members = await app.groups.members(handle.id)
    assert {one.state for one in members.items} == {JobState.SUCCEEDED}


async def test_a_text_that_looks_signed_is_no_signature(store: Store, clock: ManualClock) -> None:
    class Bare:
        def encode(self, value: Any) -> str:
            return str(value) if isinstance(value, str) else "{}"

        def decode(self, text: str, type: Any) -> Any:  # noqa: A002 - the protocol's word
            return type() if isinstance(type, builtins.type) and text == "{}" else text

    async with App(store=store, clock=clock, auto_start=False, codec=Bare()) as app:

        @app.task
        async def say(ctx: Context) -> Plan[None, str]:
            return ctx.queue(ctx.result("!offpath written by nobody\nhello"))

        handle = await say.enqueue()
        await app.worker().run_until_idle()
        assert await handle == "!offpath written by nobody\nhello"
