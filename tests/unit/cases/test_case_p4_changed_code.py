"""P4: a half-done job meets changed code: it goes on by the rule, or it ends once and says why."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pydantic
import pytest

from offpath import App, Context, JobState
from offpath.model.job import DeadReason, JobRecord
from offpath.runtime.clock import ManualClock
from offpath.store.memory import MemoryStore


class Deploys:
    """One store, and one release after the other."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.store = MemoryStore(self.clock)
        self.did: list[str] = []
        self.apps: list[App] = []

    async def release(self, handler: Callable[..., Any], **options: Any) -> App:
        app = App(store=self.store, clock=self.clock, auto_start=False)
        app.task(name="flow", **options)(handler)
        await app.open()
        self.apps.append(app)
        return app

    async def steps(self, ctx: Context, *names: str) -> list[str]:
        return [await ctx.step(name, self.do, name) for name in names]

    def do(self, name: str) -> str:
        self.did.append(name)
        return f"{name} of release {len(self.apps)}"


@pytest.fixture
async def deploys() -> AsyncIterator[Deploys]:
    made = Deploys()
    yield made
    for app in made.apps:
        await app.close()


@pytest.mark.parametrize(
    ("change", "names", "done_again"),
    [
        ("a step is added in front", ("zero", "one", "two"), ["zero", "two"]),
        ("a step is removed", ("two",), ["two"]),
        ("a step is renamed", ("uno", "two"), ["uno", "two"]),
    ],
)
async def test_a_half_done_job_goes_on_behind_what_is_recorded(
    deploys: Deploys, change: str, names: tuple[str, ...], done_again: list[str]
) -> None:
    async def first(ctx: Context, amount: int) -> None:
        await deploys.steps(ctx, "one")
        raise ConnectionError("away")

    async def second(ctx: Context, amount: int) -> list[str]:
        return await deploys.steps(ctx, *names)

    app = await deploys.release(first)
    handle = await app.enqueue(app.tasks["flow"].job(1))
    await app.worker().run_until_idle()
    assert deploys.did == ["one"]
    app = await deploys.release(second)
    deploys.clock.advance(60)
    await app.worker().run_until_idle()
    record = await app.jobs.get(handle.id)
    assert (record.state, record.attempt) == (JobState.SUCCEEDED, 2)
    assert deploys.did == ["one", *done_again]


async def test_a_renamed_field_is_dead_once_with_its_input_kept(deploys: Deploys) -> None:
    async def first(ctx: Context, amount: int) -> None:
        await ctx.sleep(3600)

    async def second(ctx: Context, cents: int) -> None:
        raise AssertionError("it ran")

    app = await deploys.release(first)
    handle = await app.enqueue(app.tasks["flow"].job(1))
    await app.worker().run_until_idle()
    app = await deploys.release(second)
    deploys.clock.advance(3600)
    counts = await app.worker().run_until_idle()
    assert counts.dead == 1
    assert (await app.worker().run_until_idle()).total == 0
    record = await app.dead.show(handle.id)
    assert (record.reason, record.input) == (DeadReason.BAD_INPUT, '{"amount":1}')
    assert record.failure is not None
    assert "unknown field `amount`" in record.failure.message


# -- models that changed between enqueue and run (T2-17) -----------------------------------------

MARKER = "hunter2"


class Old(pydantic.BaseModel):
    amount: int
    note: str = MARKER


class WithDefault(pydantic.BaseModel):
    amount: int
    note: str
    currency: str = "USD"


class WithoutDefault(pydantic.BaseModel):
    amount: int
    note: str
    currency: str


class Less(pydantic.BaseModel):
    amount: int


class Forbidding(pydantic.BaseModel, extra="forbid"):
    amount: int


class OtherType(pydantic.BaseModel):
    amount: int
    note: list[int]


class Quoting(pydantic.BaseModel):
    amount: int
    note: str

    @pydantic.field_validator("note")
    @classmethod
    def check(cls, note: str) -> str:
        raise ValueError(f"{note} is too short")


class Raising(pydantic.BaseModel):
    amount: int
    note: str

    @pydantic.field_validator("note")
    @classmethod
    def check(cls, note: str) -> str:
        raise KeyError(note)


async def _rerun(deploys: Deploys, newer: type[pydantic.BaseModel]) -> tuple[JobRecord, list[Any]]:
    """A job that was enqueued with the old model and is run by the code of the new one."""
    seen: list[Any] = []

    async def first(ctx: Context, order: Old) -> None:
        raise AssertionError("it ran")

    async def second(ctx: Context, order: Any) -> None:
        seen.append(order)

    second.__annotations__["order"] = newer
    app = await deploys.release(first)
    handle = await app.enqueue(app.tasks["flow"].job(Old(amount=1)))
    app = await deploys.release(second)
    await app.worker().run_until_idle()
    return await app.jobs.get(handle.id), seen


@pytest.mark.parametrize(
    ("newer", "order"),
    [
        (WithDefault, WithDefault(amount=1, note=MARKER, currency="USD")),
        (Less, Less(amount=1)),
    ],
)
async def test_a_default_stands_for_what_an_older_version_did_not_write(
    deploys: Deploys, newer: type[pydantic.BaseModel], order: pydantic.BaseModel
) -> None:
    record, seen = await _rerun(deploys, newer)
    assert (record.state, seen) == (JobState.SUCCEEDED, [order])


@pytest.mark.parametrize(
    ("newer", "field"),
    [
        (WithoutDefault, "currency"),
        (Forbidding, "note"),
        (OtherType, "note"),
        (Quoting, "note"),
        (Raising, None),
    ],
)
async def test_what_does_not_fit_is_dead_with_its_place_and_without_its_value(
    deploys: Deploys,
    caplog: pytest.LogCaptureFixture,
    newer: type[pydantic.BaseModel],
    field: str | None,
) -> None:
    caplog.set_level("DEBUG")
    record, seen = await _rerun(deploys, newer)
    assert (record.state, record.reason, seen) == (JobState.DEAD, DeadReason.BAD_INPUT, [])
    assert record.failure is not None
    text = record.failure.message
    if field is None:
        assert text == "task 'flow': KeyError: '…'"
    else:
        assert text.endswith("- at `$.order`")
        assert f"`{field}`: " in text
    told = f"{record.failure!r} {record.failures!r} {caplog.text}"
    assert MARKER not in told
