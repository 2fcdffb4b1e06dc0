"""Each row of Django's contract of the Tasks API, on both databases."""

from __future__ import annotations

import asyncio
import pickle
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import django
import pytest
from django.db import connections, transaction
from django.http import HttpRequest, HttpResponse
from django.test import Client, override_settings
from django.urls import path
from django.utils import timezone
from django.utils.translation import gettext_lazy

from offpath.contrib.django import app_of, names
from offpath.contrib.django.models import TaskJob
from offpath.errors import UniqueConflict
from tests.contrib.django import site, tasks
from tests.contrib.django.conftest import point_to, with_options, work

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

READY, FAILED, SUCCESSFUL = (
    getattr(names.TaskResultStatus, name) for name in ("READY", "FAILED", "SUCCESSFUL")
)


@pytest.fixture(autouse=True)
def _nothing_seen() -> Iterator[None]:
    tasks.SEEN.clear()
    yield
    tasks.SEEN.clear()


def count(alias: str) -> int:
    table = "offpath_job" if alias == site.SQLITE else "offpath.job"
    with connections[alias].cursor() as cursor:
        cursor.execute(f"select count(*) from {table}")
        return int(cursor.fetchone()[0])


def test_it_says_what_it_can(alias: str) -> None:
    backend = names.task_backends[alias]
    assert backend.supports_defer
    assert backend.supports_async_task
    assert backend.supports_get_result
    assert backend.supports_priority


def test_a_task_runs_and_its_result_is_there(alias: str) -> None:
    result = tasks.double.using(backend=alias).enqueue(21)
    assert (result.status, result.attempts, result.is_finished) == (READY, 0, False)
    assert result.enqueued_at is not None
    assert result.started_at is None
    with pytest.raises(ValueError, match="not finished"):
        _ = result.return_value
    work(alias)
    result.refresh()
    assert (result.status, result.return_value, result.attempts) == (SUCCESSFUL, 42, 1)
    assert result.enqueued_at <= result.started_at <= result.finished_at
    assert result.last_attempted_at == result.started_at
    assert result.errors == []


def test_an_async_task_runs_in_the_loop(alias: str) -> None:
    result = tasks.double_later.using(backend=alias).enqueue(4)
    context = tasks.attempt_later.using(backend=alias).enqueue()
    work(alias)
    result.refresh()
    context.refresh()
    assert (result.return_value, context.return_value) == (8, 1)


def test_positional_and_named_arguments_stay_apart(alias: str) -> None:
    given = tasks.describe.using(backend=alias).enqueue(1, (2, "x"), args=[3], context=None)
    assert (given.args, given.kwargs) == ([1, [2, "x"]], {"args": [3], "context": None})
    work(alias)
    found = names.task_backends[alias].get_result(given.id)
    assert found.return_value == {
        "args": [1, [2, "x"]],
        "kwargs": {"args": [3], "context": None},
    }
    assert (found.args, found.kwargs) == (given.args, given.kwargs)
    assert (found.task.priority, found.task.queue_name) == (3, "mail")


@pytest.mark.parametrize(
    ("value", "named"), [({1, 2}, "set"), (datetime(2026, 1, 1, tzinfo=UTC), "datetime")]
)
def test_what_json_has_not_is_refused_by_the_arguments_name(
    alias: str, value: Any, named: str
) -> None:
    describe = tasks.describe.using(backend=alias)
    with pytest.raises(TypeError, match=f"argument 2 is of type {named}"):
        describe.enqueue(1, value)
    with pytest.raises(TypeError, match=f"order is of type {named}"):
        describe.enqueue(order=value)
    assert count(alias) == 0


@pytest.mark.parametrize(
    ("of", "args", "kwargs", "word"),
    [
        (tasks.double, [], {}, r"tasks\.double\(n: .*missing a required argument: 'n'"),
        (tasks.double, [1, 2], {}, "too many positional arguments"),
        (tasks.double, [], {"m": 1}, "'n'"),
        (tasks.double, [1], {"m": 1}, "unexpected keyword argument 'm'"),
        (tasks.attempt, [1, 2], {}, "too many positional arguments"),  # beside the context
        (tasks.attempt, [], {"context": 1}, "context"),
        (tasks.double_later, [], {}, "'n'"),
    ],
)
def test_arguments_that_the_task_does_not_take_are_refused(
    alias: str, of: Any, args: list[Any], kwargs: dict[str, Any], word: str
) -> None:
    with pytest.raises(TypeError, match=word):
        of.using(backend=alias).enqueue(*args, **kwargs)
    assert count(alias) == 0


def test_the_annotations_of_a_task_are_not_looked_at(alias: str) -> None:
    """As Django has it: a task that says int and is given a text gets the text."""
    result = tasks.double.using(backend=alias).enqueue("a")
    work(alias)
    result.refresh()
    assert result.return_value == "aa"


def test_a_lazy_text_and_a_row_are_refused_by_the_arguments_name(alias: str) -> None:
    describe = tasks.describe.using(backend=alias)
    for value in (gettext_lazy("word"), TaskJob(id="a")):
        with pytest.raises(TypeError, match=r"order is of type .*: give its id or its text"):
            describe.enqueue(order=value)
    assert count(alias) == 0


def test_the_context_has_the_result_and_the_attempt(alias: str) -> None:
    result = tasks.attempt.using(backend=alias).enqueue(fail=1)
    work(alias)
    result.refresh()
    assert (result.return_value, result.attempts) == (2, 2)
    assert [(1, result.id, "RUNNING"), (2, result.id, "RUNNING")] == tasks.SEEN
    (error,) = result.errors
    assert error.exception_class is LookupError
    assert "run 1 fails" in error.traceback


def test_a_task_that_fails_for_good_says_so(alias: str) -> None:
    result = tasks.attempt.using(backend=alias).enqueue(fail=9)
    work(alias)
    result.refresh()
    assert (result.status, result.attempts, len(result.errors)) == (FAILED, 2, 2)
    assert result.finished_at is not None
    with pytest.raises(ValueError, match="failed"):
        _ = result.return_value


def test_a_result_that_is_no_json_fails_the_task(alias: str) -> None:
    result = tasks.unwritable.using(backend=alias).enqueue()
    work(alias)
    result.refresh()
    assert result.status == FAILED
    assert result.errors[-1].exception_class is TypeError


def test_a_task_may_wait_for_its_time(alias: str) -> None:
    at = timezone.now() + timedelta(days=2)
    result = tasks.double.using(backend=alias, run_after=at).enqueue(1)
    work(alias)
    result.refresh()
    assert result.status == READY
    with app_of(alias).blocking as client:
        record = client.jobs.get(result.id)
    assert abs(record.run_at - at) < timedelta(milliseconds=1)
    assert names.task_backends[alias].get_result(result.id).task.run_after == record.run_at


def test_higher_priorities_run_first(alias: str) -> None:
    for priority in (-100, 0, 100):
        tasks.attempt.using(backend=alias, priority=priority).enqueue()
    with app_of(alias).blocking as client:
        found = client.jobs.find(limit=10)
    assert sorted(one.priority for one in found.items) == [-100, 0, 100]


@pytest.mark.parametrize("priority", [-101, 101, 1.5])
def test_other_priorities_are_refused(alias: str, priority: Any) -> None:
    with pytest.raises(names.InvalidTask, match="priority"):
        tasks.double.using(backend=alias, priority=priority)


def test_a_queue_must_be_listed(alias: str) -> None:
    with pytest.raises(names.InvalidTask, match="other"):
        tasks.double.using(backend=alias, queue_name="other")


def test_a_naive_time_is_refused_where_times_are_aware(alias: str) -> None:
    with pytest.raises(names.InvalidTask, match="aware"):
        tasks.double.using(backend=alias, run_after=datetime(2030, 1, 1))  # noqa: DTZ001 - it is the point


@pytest.mark.parametrize("unknown", ["", "nonsense", "0190163d-8694-739b-aea5-966c26f8ad91"])
def test_an_unknown_id_does_not_exist(alias: str, unknown: str) -> None:
    with pytest.raises(names.TaskResultDoesNotExist):
        names.task_backends[alias].get_result(unknown)


def test_the_result_of_another_task_does_not_match(alias: str) -> None:
    result = tasks.double.using(backend=alias).enqueue(1)
    mismatch = names._module("exceptions").TaskResultMismatch
    with pytest.raises(mismatch):
        tasks.describe.using(backend=alias).get_result(result.id)
    assert tasks.double.using(backend=alias).get_result(result.id).id == result.id


def test_a_native_job_is_no_task_of_djangos(alias: str) -> None:
    app = app_of(alias)

    async def native() -> int:
        return 1

    if "native" not in app.tasks:
        app.task(name="native")(native)
    with app.blocking as client:
        handle = client.enqueue(app.tasks["native"].job())
    with pytest.raises(names.TaskResultDoesNotExist):
        names.task_backends[alias].get_result(handle.id)


def test_the_async_twins_do_the_same(alias: str) -> None:
    async def ask() -> Any:
        task = tasks.double.using(backend=alias)
        result = await task.aenqueue(3)
        found = await task.aget_result(result.id)
        await found.arefresh()
        return found

    assert asyncio.run(ask()).status == READY


# -- transactions ------------------------------------------------------------------------------


def test_a_job_shares_the_fate_of_the_transaction(alias: str) -> None:
    double = tasks.double.using(backend=alias)
    with pytest.raises(LookupError), transaction.atomic(using=alias):
        gone = double.enqueue(1)
        # it is read on the same connection, so it is there
        assert double.get_result(gone.id).status == READY
        raise LookupError
    with pytest.raises(names.TaskResultDoesNotExist):
        double.get_result(gone.id)
    with transaction.atomic(using=alias):
        kept = double.enqueue(2)
    assert double.get_result(kept.id).args == [2]


def test_a_rollback_to_a_savepoint_takes_the_job_along(alias: str) -> None:
    double = tasks.double.using(backend=alias)
    with transaction.atomic(using=alias):
        with pytest.raises(LookupError), transaction.atomic(using=alias):
            double.enqueue(1)
            raise LookupError
        double.enqueue(2)
    assert count(alias) == 1


def enqueue_in_a_view(request: HttpRequest) -> HttpResponse:
    result = tasks.double.using(backend=request.GET["backend"]).enqueue(1)
    if "fail" in request.GET:
        raise LookupError
    return HttpResponse(result.id)


urlpatterns = [path("place", enqueue_in_a_view)]


def test_a_request_that_is_a_transaction_takes_its_jobs_along(alias: str) -> None:
    client = Client(raise_request_exception=False)
    point_to(alias, ATOMIC_REQUESTS=True)
    try:
        with override_settings(ROOT_URLCONF=__name__, ALLOWED_HOSTS=["testserver"]):
            assert client.get(f"/place?backend={alias}&fail=1").status_code == 500
            assert count(alias) == 0
            assert client.get(f"/place?backend={alias}").status_code == 200
    finally:
        point_to(alias, ATOMIC_REQUESTS=False)
    assert count(alias) == 1


def test_on_commit_writes_after_the_commit(alias: str) -> None:
    with with_options(alias, enqueue="on_commit"):
        with transaction.atomic(using=alias):
            kept = tasks.double.using(backend=alias).enqueue(1)
            assert count(alias) == 0
        with pytest.raises(LookupError), transaction.atomic(using=alias):
            tasks.double.using(backend=alias).enqueue(2)
            raise LookupError
        app_of(alias).blocking.close()
    assert count(alias) == 1
    assert kept.enqueued_at is not None


def test_another_databases_transaction_is_told_of_once(
    alias: str, caplog: pytest.LogCaptureFixture, tmp_path: Any
) -> None:
    other = site.SQLITE if alias == site.POSTGRES else site.POSTGRES
    if other == site.POSTGRES:
        pytest.skip("the other way round, with a server, says the same")
    connections[other].settings_dict["NAME"] = str(tmp_path / "other.db")
    connections[other].close()
    with transaction.atomic(using=other):
        for _ in range(3):
            tasks.double.using(backend=alias).enqueue(1)
    connections[other].close()
    said = [one for one in caplog.records if "transaction is open on 'default'" in one.getMessage()]
    assert len(said) == 1
    assert "test_backend.py" in said[0].getMessage()


# -- signals -----------------------------------------------------------------------------------


@pytest.fixture
def told() -> Iterator[list[tuple[str, str, int]]]:
    heard: list[tuple[str, str, int]] = []

    def hear(name: str) -> Callable[..., None]:
        def receive(sender: type, task_result: Any, **_: Any) -> None:
            assert sender.__name__ == "OffpathBackend"
            heard.append((name, task_result.status.value, task_result.attempts))

        return receive

    receivers = {name: hear(name) for name in ("task_enqueued", "task_started", "task_finished")}
    for name, receiver in receivers.items():
        getattr(names.signals, name).connect(receiver)
    yield heard
    for name, receiver in receivers.items():
        getattr(names.signals, name).disconnect(receiver)


@pytest.mark.parametrize("task", [tasks.double, tasks.double_later])
def test_signals_tell_of_a_success(alias: str, task: Any, told: list[Any]) -> None:
    task.using(backend=alias).enqueue(1)
    work(alias)
    assert told == [
        ("task_enqueued", "READY", 0),
        ("task_started", "RUNNING", 1),
        ("task_finished", "SUCCESSFUL", 1),
    ]


def test_signals_tell_of_a_failure_only_when_it_is_the_last(alias: str, told: list[Any]) -> None:
    tasks.attempt.using(backend=alias).enqueue(fail=9)
    work(alias)
    assert told == [
        ("task_enqueued", "READY", 0),
        ("task_started", "RUNNING", 1),
        ("task_started", "RUNNING", 2),
        ("task_finished", "FAILED", 2),
    ]


def test_an_abort_is_the_last_at_once(alias: str, told: list[Any]) -> None:
    tasks.give_up.using(backend=alias).enqueue()
    work(alias)
    assert told[-1] == ("task_finished", "FAILED", 1)


def test_a_snooze_is_no_end(alias: str, told: list[Any]) -> None:
    tasks.snooze_once.using(backend=alias).enqueue()
    work(alias)
    assert [name for name, *_ in told] == [
        "task_enqueued", "task_started", "task_started", "task_finished",
    ]  # fmt: skip


# -- our own -----------------------------------------------------------------------------------


def test_a_task_may_have_our_options(alias: str) -> None:
    tasks.with_our_options.using(backend=alias).enqueue()
    native = app_of(alias).tasks[tasks.with_our_options.module_path]
    with app_of(alias).blocking as client:
        (record,) = client.jobs.find().items
    assert record.tags == ("slow",)
    assert '"timeout":30' in record.options
    assert native.name == "tests.contrib.django.tasks.with_our_options"


@pytest.mark.skipif(django.VERSION < (6, 1), reason="tasks are pickled since Django 6.1")
def test_a_task_can_be_pickled(alias: str) -> None:
    made = tasks.with_our_options.using(backend=alias, priority=7)
    again = pickle.loads(pickle.dumps(made))
    assert (again.priority, again.retry, again.func) == (7, 5, made.func)


def test_a_task_may_enqueue_another(alias: str) -> None:
    result = tasks.follow.using(backend=alias).enqueue(alias, 5)
    work(alias)
    result.refresh()
    inner = names.task_backends[alias].get_result(result.return_value)
    assert inner.return_value == 10


@pytest.mark.parametrize("atomic", [True, False])
def test_a_repeat_of_a_unique_task_is_the_one_that_is_there(
    alias: str, told: list[Any], atomic: bool
) -> None:
    with transaction.atomic(using=alias) if atomic else nullcontext():
        first = tasks.report.using(backend=alias).enqueue()
        again = tasks.report.using(backend=alias).enqueue()
        assert again.id == first.id
        assert tasks.report.using(backend=alias).get_result(first.id).status.value == "READY"
    one, same, other = (tasks.daily.using(backend=alias).enqueue(day) for day in (1, 1, 2))
    assert one.id == same.id != other.id
    with pytest.raises(UniqueConflict, match="with another input"):
        tasks.daily.using(backend=alias).enqueue(1, note="b")
    assert [name for name, *_ in told] == ["task_enqueued"] * 3
    work(alias)
    first.refresh()
    assert first.return_value == "done"
    assert tasks.report.using(backend=alias).enqueue().id != first.id, "it has ended"


def test_a_unique_task_that_is_rolled_back_holds_no_key(alias: str) -> None:
    with pytest.raises(LookupError), transaction.atomic(using=alias):
        first = tasks.report.using(backend=alias).enqueue()
        raise LookupError
    assert tasks.report.using(backend=alias).enqueue().id != first.id


def test_a_repeat_at_the_commit_gets_the_id_of_the_one_that_is_there(alias: str) -> None:
    with with_options(alias, enqueue="on_commit"):
        with transaction.atomic(using=alias):
            first = tasks.report.using(backend=alias).enqueue()
            again = tasks.report.using(backend=alias).enqueue()
            assert again.id != first.id
        assert again.id == first.id
        app_of(alias).blocking.close()
