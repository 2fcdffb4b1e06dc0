"""The enqueue as a conversation: what it asks, and what it makes of the answers. No database."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime

import pytest

from offpath.errors import IdConflict, StoreBusy, StoreRejected, UniqueConflict
from offpath.model.effects import Effects
from offpath.model.job import Enqueued, NewJob, UniqueClaim, UniquePolicy
from offpath.store.postgres.effects import commit_steps
from offpath.store.postgres.faults import KeyMoved
from offpath.store.postgres.migrate import PACKAGE
from offpath.store.sql import Query, Row, catalogue
from tests.conformance.builders import new_job, uid

SQL = catalogue(PACKAGE)
AT = datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)
MICROS = 1_000_000


class Conversation:
    """Answers each statement from a script, in order; keeps what was asked."""

    def __init__(self, *jobs: NewJob) -> None:
        self._steps = commit_steps(Effects(jobs=jobs), AT, sql=SQL)
        self.asked: list[Query] = []

    def run(self, *answers: tuple[str, Sequence[Row]]) -> list[Enqueued]:
        rows: Sequence[Row] | None = None
        script = iter(answers)
        try:
            while True:
                query = next(self._steps) if rows is None else self._steps.send(rows)
                self.asked.append(query)
                name, rows = next(script)
                assert query.name == name
        except StopIteration as done:
            assert next(script, None) is None
            result: list[Enqueued] = done.value
            return result


def unique(key: str, policy: UniquePolicy = UniquePolicy.ATTACH, number: int = 1) -> NewJob:
    return new_job(id=uid(number), unique=UniqueClaim(key=key, policy=policy))


def test_nothing_in_the_way_is_one_statement() -> None:
    talk = Conversation(new_job(id=uid(1)), new_job(id=uid(2)))
    made = talk.run(("enqueue", [(uid(2), MICROS, 0), (uid(1), MICROS, 0)]))
    assert made == [Enqueued(id=uid(n), job_id=uid(n), created=True, run_at=AT) for n in (1, 2)]
    assert talk.asked[0].params["now"] == AT.isoformat()


def test_keys_are_written_in_order_so_that_two_calls_cannot_deadlock() -> None:
    talk = Conversation(unique("b", number=1), unique("a", number=2))
    talk.run(("enqueue", [(uid(1), MICROS, 0), (uid(2), MICROS, 0)]))
    batch = json.loads(talk.asked[0].params["batch"])
    assert [job["unique"]["key"] for job in batch] == ["a", "b"]


def test_a_repeat_is_answered_and_another_payload_refused() -> None:
    job = new_job(id=uid(1))
    there = (uid(1), job.fingerprint, MICROS)
    (made,) = Conversation(job).run(("enqueue", []), ("same_ids", [there]))
    assert made == Enqueued(id=uid(1), job_id=uid(1), created=False, run_at=AT)
    with pytest.raises(IdConflict):
        Conversation(job).run(("enqueue", []), ("same_ids", [(uid(1), "another", MICROS)]))


def test_a_conflict_takes_back_what_was_written() -> None:
    jobs = (new_job(id=uid(1)), unique("k", UniquePolicy.REFUSE, number=2))
    talk = Conversation(*jobs)
    with pytest.raises(UniqueConflict) as caught:
        talk.run(
            ("enqueue", [(uid(1), MICROS, 0)]),
            ("same_ids", []),
            ("holders", [("k", uid(9), "f", "ready", MICROS, 0)]),
            ("withdraw", []),
        )
    assert caught.value.holder == uid(9)
    assert json.loads(talk.asked[-1].params["ids"]) == [uid(1)]


def test_a_holder_whose_period_is_over_gives_the_key_up() -> None:
    made = Conversation(unique("k")).run(
        ("enqueue", []),
        ("same_ids", []),
        ("holders", [("k", uid(9), "f", "running", MICROS, 1)]),
        ("release_keys", []),
        ("enqueue", [(uid(1), MICROS, 0)]),
    )
    assert [one.created for one in made] == [True]


def test_a_holder_is_locked_before_it_is_replaced() -> None:
    talk = Conversation(unique("k", UniquePolicy.REPLACE))
    (made,) = talk.run(
        ("enqueue", []),
        ("same_ids", []),
        ("lock_holders", [("k", uid(9), "f", "scheduled", 0, 0)]),
        ("replace_holders", [(uid(9), MICROS)]),
    )
    assert made == Enqueued(id=uid(1), job_id=uid(9), created=False, run_at=AT)
    assert json.loads(talk.asked[-1].params["batch"])[0]["id"] == uid(9)


def test_a_holder_that_is_not_replaced_is_not_locked() -> None:
    talk = Conversation(unique("a", UniquePolicy.REPLACE, 1), unique("b", number=2))
    talk.run(
        ("enqueue", []),
        ("same_ids", []),
        ("holders", [("b", uid(8), "", "scheduled", 0, 0)]),
        ("lock_holders", [("a", uid(9), "f", "scheduled", 0, 0)]),
        ("replace_holders", [(uid(9), MICROS)]),
    )
    assert [one.params["keys"] for one in talk.asked[2:4]] == ['["b"]', '["a"]']


def test_a_second_look_waits_for_no_holder() -> None:
    first: list[tuple[str, Sequence[Row]]] = [
        ("enqueue", []),
        ("same_ids", []),
        ("lock_holders", []),
        ("enqueue", []),
        ("same_ids", []),
    ]
    free = [("k", uid(9), "f", "scheduled", 0, 0, 1)]
    end: list[tuple[str, Sequence[Row]]] = [("replace_holders", [(uid(9), MICROS)])]
    talk = Conversation(unique("k", UniquePolicy.REPLACE))
    (made,) = talk.run(*first, ("free_holders", free), *end)
    assert made.job_id == uid(9)
    written = [("k", uid(9), "", "scheduled", 0, 0, 0)]
    with pytest.raises(KeyMoved):
        Conversation(unique("k", UniquePolicy.REPLACE)).run(*first, ("free_holders", written))


def test_a_key_that_changes_hands_for_ever_is_given_up() -> None:
    rounds: list[tuple[str, Sequence[Row]]] = [
        ("enqueue", []),
        ("same_ids", []),
        ("holders", []),
    ] * 10
    with pytest.raises(StoreBusy):
        Conversation(unique("k")).run(*rounds, ("enqueue", []))


def test_members_and_an_open_root_are_counted_last() -> None:
    jobs = [new_job(id=uid(n), group_id=uid(9)) for n in (1, 2)]
    talk = Conversation(*jobs)
    talk.run(
        ("enqueue", [(uid(1), MICROS, 0), (uid(2), MICROS, 0)]),
        ("join_roots", [(uid(9), 1, None, 0)]),
        ("add_groups", []),
    )
    (group,) = json.loads(talk.asked[-1].params["batch"])
    assert (group["id"], group["more"], group["done"]) == (uid(9), 3, False)


def test_a_root_that_its_group_waited_for_is_counted() -> None:
    talk = Conversation(new_job(id=uid(1)))
    talk.run(("enqueue", [(uid(1), MICROS, 1)]), ("join_roots", []), ("add_groups", []))
    (group,) = json.loads(talk.asked[-1].params["batch"])
    assert (group["id"], group["more"]) == (uid(1), 1)


def test_what_cannot_be_stored_is_refused_before_it_is_sent() -> None:
    with pytest.raises(StoreRejected, match="must be a UUID"):
        Conversation(new_job(id="seven")).run()
    with pytest.raises(StoreRejected, match="lone surrogate"):
        Conversation(new_job(input='"\ud800"', fingerprint="f")).run()
