"""The record of an exception: whatever it is, it can be stored and read."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

import offpath
from offpath.model.job import Failure
from offpath.runtime.failures import failure_of, traceback_of

AT = datetime(2026, 1, 1, tzinfo=UTC)


async def _deepest() -> None:
    raise ValueError("no such order")


def _in_a_thread() -> None:
    raise KeyError("thread")


async def _with_cause() -> None:
    try:
        await _deepest()
    except ValueError as error:
        raise RuntimeError("cannot ship") from error


async def _returning_too_much() -> str:
    return "x" * 2**21


async def _failed(name: str) -> Failure:
    app = offpath.App(auto_start=False)
    for handler in (_deepest, _in_a_thread, _with_cause, _returning_too_much):
        app.task(name=handler.__name__, retry=1)(handler)
    async with app:
        handle = await app.enqueue_by_name(name)
        await app.worker().run_until_idle()
        failure = (await app.jobs.get(handle.id)).failure
    assert failure is not None
    return failure


@pytest.mark.parametrize("name", ["_deepest", "_in_a_thread", "_with_cause"])
async def test_a_traceback_begins_in_the_handler(name: str) -> None:
    lines = ((await _failed(name)).traceback or "").splitlines()
    files = [line for line in lines if line.startswith("  File")]
    assert files
    assert all(f'"{__file__}"' in line for line in files), lines
    starts = [at for at, line in enumerate(lines) if line.startswith("Traceback")]
    assert lines[starts[-1] + 1].endswith(f"in {name}")


async def test_a_cause_is_kept() -> None:
    text = (await _failed("_with_cause")).traceback or ""
    assert "ValueError: no such order" in text
    assert "direct cause" in text
    assert text.rstrip().endswith("RuntimeError: cannot ship")


async def test_an_error_of_the_engine_itself_keeps_its_frames() -> None:
    failure = await _failed("_returning_too_much")
    assert failure.type == "ResultError"
    assert "executor.py" in (failure.traceback or "")


def test_an_error_that_was_never_raised_has_no_traceback() -> None:
    assert traceback_of(ValueError("x")) is None
    assert failure_of(ValueError("x"), attempt=2, at=AT).traceback is None


def test_the_module_of_the_errors_class_is_recorded_beside_its_name() -> None:
    strange = type("Strange", (Exception,), {"__module__": 3})
    modules = [
        failure_of(error, attempt=1, at=AT).module
        for error in (ValueError("x"), json.JSONDecodeError("x", "", 0), strange())
    ]
    assert modules == ["builtins", "json.decoder", None]
