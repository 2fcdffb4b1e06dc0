"""Where a lease begins to read: behind what was taken, and from the first job when it must."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

import msgspec
import pytest

from offpath.model.job import LeasedJob
from offpath.model.lease import LeaseRequest
from offpath.store.breadth import MOST
from offpath.store.hints import Hint
from offpath.store.postgres.front import DEAR, LOOK, Front, Mark, Survey
from offpath.store.postgres.steps import NEVER

MOMENT: Final = datetime(2026, 1, 1, tzinfo=UTC)


class Time:
    """A monotonic clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Time:
    return Time()


@pytest.fixture
def front(clock: Time) -> Front:
    return Front(clock)


def asked(limit: int = 1, *tasks: str, worker: str = "w") -> LeaseRequest:
    return LeaseRequest(worker=worker, limit=limit, tasks=dict.fromkeys(tasks or ("t",), limit))


def job(number: int, task: str = "t") -> LeasedJob:
    return LeasedJob(
        id=f"{number:032x}",
        task=task,
        queue="q",
        input="{}",
        worker="w",
        deliveries=1,
        attempt=1,
        options="{}",
        group_id="g",
        priority=3,
        run_at=MOMENT,
        enqueued_at=MOMENT,
    )


def look(
    front: Front,
    clock: Time,
    request: LeaseRequest,
    *lanes: tuple[str, str],
    last: tuple[str, str] | None = None,
    due_in: float | None = None,
    cost: float = 0.0,
) -> None:
    begun = front.begin()
    clock.now += cost
    survey = msgspec.json.encode(Survey(lanes=list(lanes), last=last)).decode()
    front.looked(request, survey, begun, due_in)


def test_nothing_is_known_before_the_first_look(front: Front) -> None:
    assert front.marks(asked()) is None


def test_a_lease_goes_on_behind_the_last_job_that_was_taken(front: Front, clock: Time) -> None:
    look(front, clock, asked(2), ("q", "t"), ("q2", "t"))
    front.took([job(1), job(2)], [10, 20], wanted=2)
    assert front.marks(asked(2)) == [Mark("q", "t", 3, 20, f"{2:032x}"), Mark("q2", "t")]


def test_a_short_answer_ends_what_is_known(front: Front, clock: Time) -> None:
    look(front, clock, asked(2), ("q", "t"))
    front.took([job(1)], [10], wanted=2)
    assert front.marks(asked(2)) is None


def test_a_time_that_cannot_be_said_ends_what_is_known(front: Front, clock: Time) -> None:
    look(front, clock, asked(1), ("q", "t"))
    front.took([job(1)], [NEVER], wanted=1)
    assert front.marks(asked(1)) is None


def test_after_a_second_a_lease_looks_from_the_beginning(front: Front, clock: Time) -> None:
    look(front, clock, asked(), ("q", "t"))
    clock.now += LOOK - 0.01
    assert front.marks(asked()) is not None
    clock.now += 0.02
    assert front.marks(asked()) is None


def test_after_a_hint_a_lease_looks_from_the_beginning(front: Front, clock: Time) -> None:
    look(front, clock, asked(), ("q", "t"))
    front.hear(Hint.ENDED)
    assert front.marks(asked()) is not None
    front.hear(Hint.WORK)
    assert front.marks(asked()) is None


def test_a_hint_during_a_look_is_not_forgotten(front: Front, clock: Time) -> None:
    begun = front.begin()
    front.hear(Hint.WORK)
    front.looked(asked(), '{"lanes": [["q", "t"]]}', begun, None)
    assert front.marks(asked()) is None


def test_a_look_that_failed_has_not_answered_its_hint(front: Front, clock: Time) -> None:
    look(front, clock, asked(), ("q", "t"))
    front.hear(Hint.WORK)
    front.begin()
    assert front.marks(asked()) is None


def test_a_dear_look_is_made_for_a_tenth_of_the_time(front: Front, clock: Time) -> None:
    look(front, clock, asked(), ("q", "t"), cost=0.05)
    front.hear(Hint.WORK)
    assert front.marks(asked()) is not None
    clock.now += 0.51
    assert front.marks(asked()) is None


def test_a_job_that_comes_due_is_looked_for(front: Front, clock: Time) -> None:
    look(front, clock, asked(), ("q", "t"), due_in=0.2)
    assert front.marks(asked()) is not None
    clock.now += 0.3
    assert front.marks(asked()) is None


@pytest.mark.parametrize("request_", [asked(1, "other"), asked(1, "t", worker="w2")])
def test_what_was_not_asked_for_is_not_known(
    front: Front, clock: Time, request_: LeaseRequest
) -> None:
    look(front, clock, asked(), ("q", "t"))
    assert front.marks(request_) is None


def test_a_task_without_room_has_no_place(front: Front, clock: Time) -> None:
    look(front, clock, asked(1, "t", "u"), ("q", "t"), ("q", "u"))
    request = LeaseRequest(worker="w", limit=1, tasks={"t": 1, "u": 0})
    assert front.marks(request) == [Mark("q", "t")]


def test_where_a_look_ends_early_the_next_one_goes_on(front: Front, clock: Time) -> None:
    look(front, clock, asked(), ("q", "t"), last=("t", "q"))
    assert (front.start, front.partial) == (("t", "q"), True)
    assert front.marks(asked()) is None  # each lane is to have its turn
    look(front, clock, asked(), ("q9", "t"))
    assert (front.at_start, front.partial) == (True, True)
    look(front, clock, asked(), ("q", "t"))
    assert (front.at_start, front.partial) == (True, False)


# -- where looks are dear --------------------------------------------------------------------------


def dear_look(front: Front, request: LeaseRequest, *jobs: LeasedJob) -> None:
    """A look that had all there was, after a walk over dead entries."""
    survey = f'{{"took": {DEAR + 0.01}}}'
    places = [int(job.id, 16) for job in jobs]
    front.rest(request, jobs, places, survey, front.begin(), None)


def behind(front: Front, *jobs: LeasedJob, wanted: int = 9) -> bool:
    """A lease behind places that had these jobs; whether a look is due."""
    places = [int(job.id, 16) for job in jobs]
    return front.took_behind_places(jobs, places, front.begin(), wanted=wanted)


def test_the_place_of_an_emptied_lane_is_kept_where_looks_are_dear(front: Front) -> None:
    dear_look(front, asked(9), job(1), job(2))
    assert front.places(asked(9)) == [Mark("q", "t", 3, 2, f"{2:032x}")]
    assert not behind(front, job(3))
    assert front.places(asked(9)) == [Mark("q", "t", 3, 3, f"{3:032x}")]


def test_a_place_does_not_go_back(front: Front, clock: Time) -> None:
    dear_look(front, asked(9), job(5))
    clock.now += LOOK
    assert front.places(asked(9)) is None
    dear_look(front, asked(9), job(4))  # it came in late
    assert front.places(asked(9)) == [Mark("q", "t", 3, 5, f"{5:032x}")]


def test_the_next_look_is_a_second_after_the_last_one_or_a_clean_glance(
    front: Front, clock: Time
) -> None:
    dear_look(front, asked(9), job(1))
    clock.now += 0.75
    assert front.look_in == pytest.approx(LOOK - 0.75)
    front.glanced(front.begin(), ready=True)
    assert front.look_in == pytest.approx(LOOK - 0.75)
    front.glanced(front.begin(), ready=False)
    assert front.look_in == LOOK


def test_what_was_announced_and_is_not_behind_a_place_is_looked_for(
    front: Front, clock: Time
) -> None:
    dear_look(front, asked(9), job(1))
    assert not behind(front)
    front.hear(Hint.WORK)
    assert behind(front)
    assert front.places(asked(9)) is None
    dear_look(front, asked(9))
    front.hear(Hint.WORK)
    assert not behind(front, job(2)), "it was this"
    assert not behind(front)
    begun = front.begin()
    clock.now += 0.1
    front.rest(asked(9), (), (), f'{{"took": {DEAR + 0.01}}}', begun, None)
    front.hear(Hint.WORK)
    assert not behind(front), "not for more than a tenth of the time"
    front.glanced(front.begin(), ready=True)
    assert behind(front), "but where it is seen to be there"


def test_a_glance_may_have_seen_what_was_leased_meanwhile(front: Front, clock: Time) -> None:
    dear_look(front, asked(9), job(1))
    begun = front.begin()
    clock.now += 0.1
    assert not behind(front, job(2))
    front.glanced(begun, ready=True)
    assert not behind(front)
    front.glanced(front.begin(), ready=True)
    assert behind(front)


def test_a_full_lease_behind_a_place_has_met_a_backlog(front: Front) -> None:
    dear_look(front, asked(9), job(1))
    assert behind(front, job(2), job(3), wanted=2)
    assert front.marks(asked(9)) == [Mark("q", "t", 3, 3, f"{3:032x}")]
    assert front.places(asked(9)) is None


def test_more_places_than_a_lease_can_read_are_not_kept(front: Front) -> None:
    tasks = [f"t{n}" for n in range(MOST + 1)]
    dear_look(front, asked(99, *tasks), *(job(1, task) for task in tasks))
    assert front.places(asked(99, *tasks)) is None
    dear_look(front, asked(99, *tasks), *(job(1, task) for task in tasks[:MOST]))
    assert len(front.places(asked(99, *tasks)) or ()) == MOST
