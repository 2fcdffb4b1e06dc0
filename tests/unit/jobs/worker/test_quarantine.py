"""Jobs that the next death of their worker would bury: one at a time."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import cast

import pytest

from offpath.jobs.worker.quarantine import LONGEST, SHORTEST, Quarantine
from offpath.jobs.worker.running import Run


@dataclass(frozen=True)
class Job:
    losses: int


@dataclass(eq=False)
class Held:
    """As much of a run as matters here."""

    job: Job
    leased_at: float = 0.0


def run(losses: int, leased_at: float = 0.0) -> Run:
    return cast("Run", Held(Job(losses), leased_at))


def test_a_job_with_chances_left_is_no_suspect() -> None:
    quarantine = Quarantine(max_deliveries=3)
    assert quarantine.aside(run(losses=1)) is None
    assert quarantine.aside(run(losses=0)) is None
    assert quarantine.aside(run(losses=2)) is None, "the first suspect stays"


@pytest.mark.parametrize(("later", "seconds"), [(0.0, SHORTEST), (3.0, 3.0), (99.0, LONGEST)])
def test_the_second_suspect_is_put_off_within_bounds(later: float, seconds: float) -> None:
    quarantine = Quarantine(max_deliveries=3)
    assert quarantine.aside(run(losses=2)) is None
    assert quarantine.aside(run(losses=2, leased_at=later)) == seconds


async def test_the_one_inside_waits_until_the_others_are_back() -> None:
    quarantine = Quarantine(max_deliveries=3)
    inside, second, third = run(losses=2), run(losses=2), run(losses=5)
    for each in (inside, second, third):
        quarantine.aside(each)
    alone = asyncio.create_task(quarantine.alone(inside))
    quarantine.let_go(second)
    await asyncio.sleep(0)
    assert not alone.done()
    quarantine.let_go(third)
    await asyncio.wait_for(alone, 5)


async def test_nobody_else_waits() -> None:
    quarantine = Quarantine(max_deliveries=3)
    quarantine.aside(run(losses=2))
    quarantine.aside(run(losses=2))
    await asyncio.wait_for(quarantine.alone(run(losses=0)), 5)


def test_the_place_is_free_again_when_it_is_left() -> None:
    quarantine = Quarantine(max_deliveries=3)
    first = run(losses=2)
    quarantine.aside(first)
    quarantine.let_go(first)
    assert quarantine.aside(run(losses=2)) is None


def test_with_one_delivery_only_a_job_that_was_lost_is_a_suspect() -> None:
    quarantine = Quarantine(max_deliveries=1)
    assert quarantine.aside(run(losses=0)) is None
    assert quarantine.aside(run(losses=0)) is None
