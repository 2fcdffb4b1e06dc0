"""The draws of the model-based test, and how it compares answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hypothesis import strategies as st
from msgspec.structs import replace

from offpath.errors import UniqueConflict
from offpath.model.announce import BITS, announced
from offpath.model.changes import ChangedJob
from offpath.model.job import (
    Count,
    DeadReason,
    Failure,
    JobRecord,
    JobState,
    Page,
    UniqueClaim,
    UniquePolicy,
)
from offpath.model.lease import Leased, Renewed, Rescued, WorkerRecord
from offpath.model.settlement import (
    Cancelled,
    Dead,
    Outcome,
    Released,
    Retry,
    Settled,
    Snoozed,
    Succeeded,
)
from offpath.store.protocol import Backlog
from tests.conformance.builders import failure, uid

IDS = [uid(number * 37 % 101) for number in range(1, 101)]
"""In the order in which they are used, which is not the order in which they sort."""
TASKS = ["a", "b", "c"]
QUEUES = ["q", "r"]
WORKERS = ["w1", "w2", "w3"]

# -- what is drawn ---------------------------------------------------------------------------------

places = st.integers(0, 40)
"""Places among the jobs that were ever enqueued, counted from the last."""
some_places = st.lists(places, min_size=1, max_size=6)
workers = st.sampled_from(WORKERS)
# Every duration is one of few, so that edges are met: what is due or over exactly now.
keeps = st.sampled_from([None, 0.0, 10.0])
delays = st.sampled_from([0.0, 0.0, 0.0, 0.25, 10.0])
leases = st.sampled_from([10.0, 20.0, 60.0])
scopes = st.sampled_from(
    [
        UniqueClaim(key="").states,
        (JobState.QUEUED,),
        (JobState.QUEUED, JobState.RUNNING),
        (JobState.QUEUED, JobState.RUNNING, JobState.SUCCEEDED, JobState.DEAD),
        tuple(JobState),
        (JobState.RUNNING,),
    ]
)
claims = st.builds(
    UniqueClaim,
    key=st.sampled_from(["k", "k", "k", "l", "l", "m"]),
    policy=st.sampled_from(UniquePolicy),
    states=scopes,
    period=st.sampled_from([None, None, 10.0]),
)
plain_fields = st.fixed_dictionaries(
    {
        "task": st.sampled_from(TASKS),
        "input": st.sampled_from(["1", "2"]),
        "queue": st.sampled_from(QUEUES),
        "priority": st.sampled_from([0, 0, -2, 5]),
        "delay": delays,
    },
    optional={
        "run_in": st.sampled_from([-30.0, -30.0, 10.0]),
        "deadline_at": st.sampled_from([-1.0, 25.0]),
        "deadline_in": st.sampled_from([5.0, 60.0]),
        "parent": places,
        "dependents": st.lists(places, max_size=2).map(tuple),
        "tags": st.lists(st.sampled_from(["x", "y"]), unique=True, max_size=2).map(tuple),
        "options": st.just('{"timeout":5}'),
        "announce": st.sampled_from([announced(BITS, details=True), announced(BITS), 5]),
    },
)
new_jobs = st.one_of(
    plain_fields,
    st.tuples(
        plain_fields,
        st.fixed_dictionaries(
            {},
            optional={"group_id": places, "unique": claims, "again": places, "same": st.just(1)},
        ),
    ).map(lambda drawn: drawn[0] | drawn[1]),
)
"""``again`` is the place of a job whose id is used once more, for the ``same`` work or another."""

unique_jobs = st.fixed_dictionaries(
    {
        "task": st.just("a"),
        "input": st.sampled_from(["1", "1", "2"]),
        "delay": delays,
        "unique": claims,
    },
    optional={"deadline_in": st.just(60.0), "group_id": places},
)
"""Few in kind, so that they meet the holders of their keys."""
uniques = st.lists(unique_jobs, min_size=1, max_size=4)
"""Several keys in one call, and one key several times."""
ttls = st.sampled_from([None, 10.0, 10.0])
"""Seconds for which a name is claimed."""

failures = st.builds(
    failure, st.sampled_from(["no", "nope"]), type=st.sampled_from(["E", "F"]), at=st.just(None)
)
outcomes: st.SearchStrategy[Outcome] = st.one_of(
    st.builds(Succeeded, result=st.sampled_from([None, "1"])),
    st.builds(Retry, delay=delays, failure=failures),
    st.builds(Snoozed, delay=delays, reason=st.sampled_from(["snoozed", "limit"])),
    st.builds(Dead, reason=st.sampled_from(DeadReason), failure=failures),
    st.builds(Cancelled, failure=st.one_of(st.none(), failures)),
    st.just(Released()),
)
filters = st.fixed_dictionaries(
    {},
    optional={
        "ids": some_places,
        "states": st.lists(st.sampled_from(JobState), min_size=1, max_size=3).map(tuple),
        "tasks": st.lists(st.sampled_from(TASKS), min_size=1, max_size=2).map(tuple),
        "queues": st.lists(st.sampled_from(QUEUES), min_size=1, max_size=1).map(tuple),
        "tags": st.lists(st.sampled_from(["x", "y"]), min_size=1, unique=True).map(tuple),
        "group_id": places,
        "parent": places,
        "reasons": st.sampled_from([("exhausted",), ("cancelled", "limit"), ("worker_lost",)]),
        "error_types": st.sampled_from([("E",), ("F", "WorkerLost")]),
        "enqueued_after": st.just("enqueued"),
        "finished_before": st.just("finished"),
        "redrives_below": st.sampled_from([1, 2]),
    },
)

# -- what is compared ------------------------------------------------------------------------------


def told(error: Exception | None) -> tuple[Any, ...] | None:
    """An error as far as a caller acts on it."""
    if isinstance(error, UniqueConflict):
        return type(error), error.key, error.holder
    return None if error is None else (type(error),)


def alike(answer: Any) -> Any:
    """An answer without what the contract leaves open: the order of some lists, and wording."""
    match answer:
        case [ChangedJob(), *_]:
            return _as_groups(answer, [each.id for each in answer], [c.group_id for c in answer])
        case [Rescued(), *_]:
            jobs = [each.job for each in answer]
            return _as_groups(answer, [job.id for job in jobs], [job.group_id for job in jobs])
        case [JobRecord(), *_]:
            return [alike(each) for each in sorted(answer, key=lambda each: each.id)]
        case [Count(), *_] | [Backlog(), *_]:
            return sorted(answer, key=lambda each: (each.queue, each.task, repr(each)))
        case list() | tuple():
            return [alike(each) for each in answer]
        case Settled():
            return replace(answer, error=None), told(answer.error)
        case Leased():
            return replace(answer, more=False)
        case Page():
            return [alike(each) for each in answer.items], answer.next
        case JobRecord():
            return replace(answer, failures=tuple(_without_text(f) for f in answer.failures))
        case WorkerRecord():
            return replace(answer, presence=False)
        case Renewed():
            return answer.alive, sorted(answer.cancelled), sorted(answer.lost)
        case _:
            return answer


def _as_groups(answers: Sequence[Any], names: list[str], groups: list[str]) -> Any:
    """In the order of the jobs' ids; which of several jobs ended their group is left open."""
    done = sorted(group for one, group in zip(answers, groups, strict=True) if one.group_done)
    named = sorted(zip(names, answers, strict=True), key=lambda pair: pair[0])
    return [replace(one, group_done=False) for _, one in named], done


def _without_text(failed: Failure) -> Failure:
    return replace(failed, message="") if failed.kind == "worker_lost" else failed


def open_groups(records: Mapping[str, JobRecord]) -> set[str]:
    """The groups that have a job which has not ended."""
    return {job.group_id for job in records.values() if not job.state.terminal}
