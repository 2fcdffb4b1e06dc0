"""Batch tasks: what can be one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import offpath
from offpath import App, Context
from offpath.errors import TaskError
from tests.unit.jobs.batches.bench import Bench


async def test_it_stays_callable(bench: Bench) -> None:
    assert list(await bench.doubling()([1, 2])) == [2, 4]


async def test_a28_067_one_input_alone(bench: Bench) -> None:
    assert await bench.doubling().fn(21) == 42


def test_errors_are_no_part_of_the_result_type() -> None:
    app = App()

    @app.batch_task(size=2)
    def parse(texts: list[str]) -> list[int | ValueError | None]:
        return [int(text) for text in texts]

    assert parse.results.type == (int | None)


@pytest.mark.parametrize(
    ("define", "text"),
    [
        (lambda app: app.batch_task(size=2)(with_context), "BatchContext"),
        (lambda app: app.batch_task(size=2)(no_list), "must be a list"),
        (lambda app: app.batch_task(size=2)(no_outputs), "return type must be a list"),
        (lambda app: app.batch_task(size=2)(two), "one parameter"),
        (lambda app: app.batch_task(size=2, stricter=True)(no_list), "no setting 'stricter'"),
    ],
)
def test_what_cannot_be_a_batch_task_is_refused(define: Callable[[Any], Any], text: str) -> None:
    with pytest.raises(TaskError, match=text):
        define(App())


@pytest.mark.parametrize("size", [0, -1, 1_001, 1.5])
def test_a_size_that_cannot_be_is_refused(size: Any) -> None:
    with pytest.raises(offpath.InvalidArgument, match="size"):
        App().batch_task(size=size)


def with_context(ctx: Context, numbers: list[int]) -> list[int]:
    return numbers


def no_list(number: int) -> list[int]:
    return [number]


def no_outputs(numbers: list[int]) -> None:
    return None


def two(numbers: list[int], other: int) -> list[int]:
    return numbers
