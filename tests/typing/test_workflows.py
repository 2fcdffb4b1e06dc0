"""The answers of type checkers about plans, groups and gates: a group gives the union of what is queued."""

from __future__ import annotations

import operator
from typing import Any, assert_type

import offpath
from offpath import App, Context, Gate, Group, Handle, Job, Plan
from offpath.records import Page, PartOutcome

app = App(on_orphan_group=lambda group: print(group.value), strict=True)


@app.task
async def number(n: int) -> int:
    return n


@app.task
def text(t: str) -> str:
    return t


@app.task
async def nothing(n: int) -> None:
    return None


@app.task
async def flag(ctx: Context) -> bytes | float:
    return b""


@app.task
async def counted(ctx: Context, n: int) -> Plan[int, int]:
    return ctx.result(n, append=operator.add)


@app.task(group_policy="fail_fast", strict=False)
async def mixed(ctx: Context, n: int) -> Plan[None, int | str]:
    return ctx.queue(number.job(1), text.job("a"), nothing.job(2)).next(counted.job(n))


@app.task
def synchronous(ctx: Context) -> Plan[str, str | int]:
    return ctx.result("a").next(number.job(1))


@app.task
async def joined(ctx: Context) -> int:
    assert_type(await ctx.results(number), list[int])
    assert_type(await ctx.results(text), list[str])
    assert_type(await ctx.results(flag), list[bytes | float])
    assert_type(await ctx.outcomes(), list[PartOutcome])
    return sum(await ctx.results(number))


@app.task
def joined_in_a_thread(ctx: Context) -> list[str]:
    return ctx.blocking(ctx.results(text))


@app.task
async def perhaps(ctx: Context, n: int) -> Plan[None, int] | None:
    return ctx.queue(number.job(n)) if n else None


@app.task
async def sometimes(ctx: Context, n: int) -> Plan[int | None, str | int]:
    return ctx.queue(synchronous.job()) if n else ctx.result(3)


@app.task
def perhaps_synchronous(ctx: Context) -> Plan[None, int] | None:
    return None


async def tasks_that_return_plans() -> None:
    assert_type(counted.job(1), Job[int, int])
    assert_type(mixed.job(1), Job[None, int | str])
    assert_type(await mixed.enqueue(1), Handle[None, int | str])
    assert_type(synchronous.job(), Job[str, str | int])
    assert_type(perhaps.job(0), Job[None, int | None])
    assert_type(sometimes.job(0), Job[int | None, str | int])
    assert_type(perhaps_synchronous.job(), Job[None, int | None])
    assert_type(await (await mixed.enqueue(1)), int | str)
    handle = await synchronous.enqueue()
    assert_type(await handle, str | int)
    assert_type(await handle.group(timeout=5), str | int)
    assert_type(await handle.group(allow_failed=True), str | int)
    assert_type(await handle.result(), str)
    assert_type(await handle.cancel_group(), int)
    assert_type(app.blocking.enqueue(mixed.job(1)).group(), int | str)
    assert_type(await app.groups.get(handle.id), Group)
    assert_type(await app.groups.members(handle.id), Page)


def queues(ctx: Context) -> None:
    one, two, void = number.job(1), text.job("a"), nothing.job(1)
    assert_type(ctx.queue(), Plan[None, None])
    assert_type(ctx.queue(one), Plan[None, int])
    assert_type(ctx.queue(one, two), Plan[None, int | str])
    assert_type(ctx.queue(one, two, priority=5, queue="q", timeout=9), Plan[None, int | str])
    assert_type(ctx.queue(one, one, one), Plan[None, int])
    assert_type(ctx.queue(one, one, one, two), Plan[None, int | str])
    assert_type(ctx.queue(one, one, one, one, two), Plan[None, int | str])
    assert_type(ctx.queue(one, one, one, one, one, two), Plan[None, int | str])
    assert_type(ctx.queue(one, one, one, one, one, one, two), Plan[None, int | str])
    assert_type(ctx.queue(one, one, one, one, one, one, two, flag.job()), Plan[None, int | str | bytes | float])  # noqa: E501  # fmt: skip
    assert_type(ctx.queue(*[number.job(n) for n in range(99)]), Plan[None, int])


def nothing_drops_out(ctx: Context) -> None:
    one, void = number.job(1), nothing.job(1)
    assert_type(ctx.queue(void), Plan[None, None])
    assert_type(ctx.queue(void, void), Plan[None, None])
    assert_type(ctx.queue(void, one), Plan[None, int])
    assert_type(ctx.queue(one, void), Plan[None, int])
    assert_type(ctx.queue(void).next(one), Plan[None, int])
    assert_type(ctx.queue(one).next(void), Plan[None, int])
    assert_type(ctx.queue(void).next(void), Plan[None, None])
    assert_type(ctx.queue(mixed.job(1), void), Plan[None, int | str])


def chains_and_nests(ctx: Context) -> None:
    one, two = number.job(1), text.job("a")
    assert_type(ctx.result(5), Plan[int, int])
    assert_type(ctx.result(5, final=True), Plan[int, int])
    assert_type(ctx.result(5).next(two), Plan[int, int | str])
    assert_type(ctx.queue(one).next(two), Plan[None, int | str])
    assert_type(ctx.queue(one).next(one, when=offpath.all_settled, timeout=5), Plan[None, int])
    assert_type(ctx.queue(one).next(flag.job()).next(two), Plan[None, int | bytes | float | str])
    assert_type(ctx.queue(ctx.result("a"), ctx.queue(one)), Plan[None, str | int])


def by_way_of_a_variable(ctx: Context) -> None:
    """F1: nothing says then which answer is expected."""
    one, two, void = number.job(1), text.job("a"), nothing.job(1)
    chain = ctx.queue(one).next(one, two)
    assert_type(chain, Plan[None, int | str])
    three = ctx.queue(one).next(one, two, flag.job())
    assert_type(three, Plan[None, int | str | bytes | float])
    same = ctx.queue(one).next(one, two, one, one, one, one, one, one, one, one)
    assert_type(same, Plan[None, int | str])
    after = ctx.result("a").next(one, void)
    assert_type(after, Plan[str, str | int])
    ten = ctx.queue(two, one, one, one, one, one, one, one, one, one)
    assert_type(ten, Plan[None, str | int])
    numbers = [number.job(n) for n in range(9)]
    assert_type(ctx.queue(*numbers), Plan[None, int])
    assert_type(ctx.queue(one).next(*numbers), Plan[None, int])


def a_mixed_list_is_vague_and_not_wrong(ctx: Context) -> None:
    """F1: mypy joins its types to object, pyright does not know them; neither may say None."""
    mixed_list = [number.job(1), text.job("a")]
    assert_type(ctx.queue(*mixed_list), Plan[None, None])  # type: ignore[assert-type]
    assert_type(ctx.queue(mixed.job(1)).next(*mixed_list), Plan[None, int | str])  # type: ignore[assert-type]  # noqa: E501


def a_tuple_and_a_list_with_its_type_are_exact(ctx: Context) -> None:
    """F1: what to write where a list of several tasks is kept in a variable."""
    pair = (number.job(1), text.job("a"))
    assert_type(ctx.queue(*pair), Plan[None, int | str])
    assert_type(ctx.queue(number.job(1)).next(*pair), Plan[None, int | str])
    assert_type(offpath.gate(on=["id"], queue=pair), Gate[int | str])
    assert_type(offpath.gate(on=["id"], queue=(*pair, nothing.job(1))), Gate[int | str])
    named: list[Job[Any, int | str]] = [number.job(1), text.job("a")]
    assert_type(ctx.queue(*named), Plan[None, int | str])
    assert_type(ctx.queue(number.job(1)).next(*named), Plan[None, int | str])
    assert_type(offpath.gate(on=["id"], queue=named), Gate[int | str])


def a_gate_of_a_mixed_list_is_vague_and_not_wrong() -> None:
    """F1: pyright does not know its types; it said that the gate gives None."""
    mixed_list = [number.job(1), text.job("a")]
    assert_type(offpath.gate(on=["id"], queue=mixed_list), Gate[None])  # type: ignore[assert-type]


async def handles_of_a_list() -> None:
    x, y = await app.enqueue([number.job(1), number.job(2)])
    assert_type(x, Handle[int, int])
    assert_type(await y, int)


def dynamic(ctx: Context, unknown: Job[Any, Any]) -> None:
    assert_type(ctx.queue(unknown), Plan[Any, Any])  # type: ignore[assert-type,unused-ignore]


async def gates(ctx: Context) -> None:
    one, void = number.job(1), nothing.job(1)
    gate = offpath.gate(on=[one, "id"], queue=[number.job(2)], when=offpath.at_least(1), timeout=5)
    assert_type(gate, Gate[int])
    assert_type(offpath.gate(on=[one], queue=[void]), Gate[None])
    assert_type(await app.enqueue(gate), Handle[Any, int])
    assert_type(await (await app.enqueue(gate)), int)
    assert_type(ctx.queue(gate, text.job("a")), Plan[None, int | str])
    assert_type(ctx.queue(one, offpath.gate(on=[one], queue=[void])), Plan[None, int])


async def what_the_checker_refuses(ctx: Context) -> None:
    one, two = number.job(1), text.job("a")
    wrong: Plan[None, str] = ctx.queue(one)  # type: ignore[assignment,arg-type]
    wrong_chain: Plan[None, int] = ctx.queue(one).next(two)  # type: ignore[arg-type]
    wrong_value: Plan[str, str] = ctx.result(5)  # type: ignore[arg-type]
    wrong_group: str = await (await number.enqueue(1))  # type: ignore[assignment]
    ctx.queue(number)  # type: ignore[call-overload]
    ctx.queue([one])  # type: ignore[call-overload]
    ctx.queue(one, prioriti=5)  # type: ignore[call-overload]
    ctx.queue(one).next(two, when="all")  # type: ignore[call-overload]
    offpath.gate(on=[5], queue=[one])  # type: ignore[list-item]
    offpath.at_least(1, of="done")  # type: ignore[arg-type]
    assert wrong, (wrong_chain, wrong_value, wrong_group)

    @app.task
    async def lies(ctx: Context) -> Plan[None, str]:
        return ctx.queue(one)  # type: ignore[return-value,arg-type]
