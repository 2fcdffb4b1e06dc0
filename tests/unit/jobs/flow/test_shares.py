"""A fair share between queues, over many leases."""

from __future__ import annotations

from offpath.jobs.worker import shares as fair
from offpath.jobs.worker.shares import Shares
from offpath.model.job import LeasedJob
from offpath.runtime.clock import ManualClock

NOW = ManualClock().now()


def job(queue: str) -> LeasedJob:
    return LeasedJob(
        id=queue,
        task="t",
        queue=queue,
        input="{}",
        worker="w",
        deliveries=1,
        attempt=1,
        options="{}",
        group_id="g",
        priority=0,
        run_at=NOW,
        enqueued_at=NOW,
    )


class Backlog:
    """A store with so many jobs in each queue: it leases as the contract says."""

    def __init__(self, **queues: int) -> None:
        self.queues = queues
        self.shares = Shares()

    def lease(self, limit: int) -> str:
        served = self.shares.served
        places = [
            (place + served.get(queue, 0), queue)
            for queue, count in self.queues.items()
            for place in range(1, count + 1)
        ]
        taken = [queue for _, queue in sorted(places)[:limit]]
        for queue in taken:
            self.queues[queue] -= 1
        self.shares.took([job(queue) for queue in taken], all_of_it=len(taken) < limit)
        return "".join(taken)


def test_a_flood_takes_turns_with_everybody_else() -> None:
    store = Backlog(a=10_000, b=5)
    assert "".join(store.lease(1) for _ in range(12)) == "abababababaa"


def test_three_queues_that_are_all_full_get_the_same() -> None:
    store = Backlog(a=1_000, b=1_000, c=1_000)
    taken = "".join(store.lease(4) for _ in range(75))
    assert [taken.count(queue) for queue in "abc"] == [100, 100, 100]


def test_a_newly_busy_queue_does_not_make_up_for_its_idleness() -> None:
    store = Backlog(a=10_000)
    for _ in range(1_000):
        store.lease(3)
    store.queues["b"] = 1_000
    assert sum(store.lease(1) == "b" for _ in range(20)) in {10, 11}


def test_a_queue_that_comes_back_often_does_not_win_more_than_its_share() -> None:
    store = Backlog(a=10_000, b=0)
    taken = ""
    for _ in range(100):
        taken += "".join(store.lease(1) for _ in range(10))
        store.queues["b"] = 3
    assert 3 * 99 - 3 <= taken.count("b") <= 3 * 99 + 3


def test_a_lease_with_room_to_spare_forgets_all() -> None:
    shares = Shares()
    shares.took([job("a")], all_of_it=False)
    assert shares.served == {"a": 1}
    shares.took([job("a")], all_of_it=True)
    assert shares.served == {}


def test_what_was_handed_in_is_not_changed_afterwards() -> None:
    shares = Shares()
    shares.took([job("a")], all_of_it=False)
    before = shares.served
    shares.took([job("b")], all_of_it=False)
    assert before == {"a": 1}


def test_no_more_than_so_many_queues_are_remembered() -> None:
    shares = Shares()
    for number in range(5 * fair.MOST_QUEUES):
        shares.took([job(f"q{number}")], all_of_it=False)
        assert len(shares.served) <= fair.MOST_QUEUES
