"""What Django's own suite asks of the backends that it ships, asked of ours.

The names of its tests that are about a backend are in ``ASKED``, each with the test here or in
``test_backend.py`` that asks the same. Those of its two backends alone are not there: a list of
results that is cleared, results that cannot be read again, a task that runs at once.
"""

from __future__ import annotations

import dataclasses
import pickle
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import django
import pytest
from asgiref.sync import async_to_sync
from django.db import transaction
from django.test import override_settings

from offpath.contrib.django import OffpathBackend, app_of, names, task
from offpath.contrib.django.results import result_of
from tests.architecture.named_tests import is_test
from tests.contrib.django import site, tasks
from tests.contrib.django.conftest import with_options, work
from tests.contrib.django.test_backend import FAILED, READY, SUCCESSFUL

if TYPE_CHECKING:
    from collections.abc import Coroutine


def run(steps: Coroutine[Any, Any, Any]) -> Any:
    """Run async code of a project; its ORM is in this thread, as Django does it under WSGI."""

    async def awaited() -> Any:
        return await steps

    return async_to_sync(awaited)()


ASKED: Final = {
    "test_using_correct_backend": "test_the_backend_is_ours",
    "test_enqueue_task": "test_what_is_enqueued_is_the_task_with_its_arguments",
    "test_enqueue_task_async": "test_what_is_enqueued_is_the_task_with_its_arguments",
    "test_get_result": "test_a_result_is_the_same_however_it_is_read",
    "test_get_result_async": "test_a_result_is_the_same_however_it_is_read",
    "test_refresh_result": "test_a_result_is_the_same_however_it_is_read",
    "test_refresh_result_async": "test_a_result_is_the_same_however_it_is_read",
    "test_pickle_task_result": "test_a_result_is_the_same_however_it_is_read",
    "test_get_missing_result": "test_an_unknown_id_does_not_exist",
    "test_get_incorrect_result": "test_the_result_of_another_task_does_not_match",
    "test_enqueue_with_invalid_argument": "test_what_json_has_not_is_refused_by_the_arguments_name",
    "test_aenqueue_with_invalid_argument": "test_async_calls_refuse_the_same",
    "test_validate_on_enqueue": "test_async_calls_refuse_the_same",
    "test_validate_on_aenqueue": "test_async_calls_refuse_the_same",
    "test_enqueue_logs": "test_django_logs_each_step",
    "test_failed_logs": "test_django_logs_each_step",
    "test_successful_task_no_none_type_in_logs": "test_django_logs_each_step",
    "test_catches_exception": "test_what_a_task_raises_is_its_failure",
    "test_complex_exception": "test_what_a_task_raises_is_its_failure",
    "test_complex_return_value": "test_a_result_that_is_no_json_fails_the_task",
    "test_result": "test_a_task_runs_and_its_result_is_there",
    "test_result_async": "test_an_async_task_runs_in_the_loop",
    "test_takes_context": "test_a_task_knows_its_own_id",
    "test_context": "test_the_context_has_the_result_and_the_attempt",
    "test_doesnt_wait_until_transaction_commit": "test_in_a_transaction_it_is_enqueued_at_once",
    "test_wait_until_transaction_commit": "test_on_commit_it_is_enqueued_by_the_commit",
    "test_naive_datetime": "test_a_naive_time_is_refused_where_times_are_aware",
    "test_invalid_priority": "test_other_priorities_are_refused",
    "test_unknown_queue_name": "test_a_queue_must_be_listed",
    "test_invalid_function": "test_what_can_be_no_task_is_refused",
    "test_takes_context_without_taking_context": "test_what_can_be_no_task_is_refused",
    "test_run_after_in_decorator": "test_what_can_be_no_task_is_refused",
    "test_pickle_task": "test_a_task_can_be_pickled",
    "test_no_backends": "test_without_a_backend_nothing_is_enqueued",
}
"""Django's test, and ours."""


def test_each_that_is_asked_is_here() -> None:
    files = [f"tests/contrib/django/test_{one}.py" for one in ("contract", "backend")]
    missing = [ours for ours in ASKED.values() if not any(is_test(f"{f}::{ours}") for f in files)]
    assert missing == []


def test_the_backend_is_ours(alias: str) -> None:
    backend = names.task_backends[alias]
    assert isinstance(backend, OffpathBackend)
    assert backend.alias == alias
    assert backend.options["database"] == alias
    assert isinstance(tasks.double.using(backend=alias).get_backend(), OffpathBackend)


@pytest.mark.parametrize("of", [tasks.double, tasks.double_later])
def test_what_is_enqueued_is_the_task_with_its_arguments(alias: str, of: Any) -> None:
    used = of.using(backend=alias)
    for result in (used.enqueue(1), run(used.aenqueue(1))):
        assert (result.status, result.task) == (READY, used)
        assert (result.args, result.kwargs, result.backend) == ([1], {}, alias)
        assert (result.started_at, result.last_attempted_at, result.finished_at) == (None,) * 3
        with pytest.raises(ValueError, match="not finished"):
            _ = result.return_value


def test_the_task_of_a_result_has_no_time_of_another_call(alias: str) -> None:
    """The backend knows a task by the first copy of it that it saw, which may have a time."""
    result = tasks.double.using(backend=alias).enqueue(2)
    with app_of(alias).blocking as client:
        record = client.jobs.get(result.id)
    later = tasks.double.using(backend=alias, run_after=datetime(2040, 1, 1, tzinfo=UTC))
    assert result_of(later, record).task.run_after is None


def test_a_result_is_the_same_however_it_is_read(alias: str) -> None:
    used = tasks.double.using(backend=alias)
    result = used.enqueue(2)
    result.refresh()  # the store's own time of the enqueue
    before = dataclasses.asdict(result)
    run(result.arefresh())
    assert dataclasses.asdict(result) == before
    assert dataclasses.asdict(used.get_result(result.id)) == before
    assert dataclasses.asdict(run(used.aget_result(result.id))) == before
    assert dataclasses.asdict(names.task_backends[alias].get_result(result.id)) == before
    work(alias)
    result.refresh()
    assert (result.status, result.return_value) == (SUCCESSFUL, 4)
    if django.VERSION[:2] >= (6, 1):  # before, a task has a function, which cannot be pickled
        copy = pickle.loads(pickle.dumps(result))
        assert (copy.id, copy.return_value) == (result.id, 4)


def test_async_calls_refuse_the_same(alias: str) -> None:
    used = tasks.double.using(backend=alias)
    with pytest.raises(TypeError, match="argument 1 is of type datetime"):
        run(used.aenqueue(datetime.now(UTC)))
    given = site._tasks()
    given[alias]["QUEUES"] = ["other"]
    with override_settings(TASKS=given):  # it was good when it was made
        for enqueue in (used.enqueue, lambda n: run(used.aenqueue(n))):
            with pytest.raises(names.InvalidTask, match="'default' is not valid"):
                enqueue(1)


def test_django_logs_each_step(alias: str, caplog: pytest.LogCaptureFixture) -> None:
    logger = names.HOME
    for of, end in ((tasks.double.using(backend=alias), "SUCCESSFUL"),
                    (tasks.give_up.using(backend=alias), "FAILED")):  # fmt: skip
        caplog.clear()
        with caplog.at_level("DEBUG", logger):
            result = of.enqueue(*([1] if end == "SUCCESSFUL" else []))
            work(alias)
        said = [one.getMessage() for one in caplog.records if one.name.startswith(logger)]
        assert all(result.id in one for one in said)
        enqueued, running, ended = said
        assert "enqueued" in enqueued
        assert "state=RUNNING" in running
        assert f"state={end}" in ended
        assert "NoneType" not in "".join(said)


@pytest.mark.parametrize(
    ("of", "kind", "text"),
    [
        (tasks.leave, SystemExit, "SystemExit: the task leaves"),
        (tasks.nested_error, ValueError, "ValueError: inside"),
    ],
)
def test_what_a_task_raises_is_its_failure(alias: str, of: Any, kind: Any, text: str) -> None:
    result = of.using(backend=alias).enqueue()
    work(alias)
    result.refresh()
    assert (result.status, result.is_finished) == (FAILED, True)
    assert result.enqueued_at <= result.started_at <= result.finished_at
    with pytest.raises(ValueError, match="Task failed"):
        _ = result.return_value
    assert result.errors[-1].exception_class is kind
    assert result.errors[-1].traceback.rstrip().endswith(text)


def test_a_task_knows_its_own_id(alias: str) -> None:
    result = tasks.own_id.using(backend=alias).enqueue()
    work(alias)
    result.refresh()
    assert result.return_value == result.id


def test_in_a_transaction_it_is_enqueued_at_once(alias: str) -> None:
    with transaction.atomic(using=alias):
        result = tasks.double.using(backend=alias).enqueue(1)
        assert result.enqueued_at is not None
        result.refresh()
        assert result.status == READY


def test_on_commit_it_is_enqueued_by_the_commit(alias: str) -> None:
    with with_options(alias, enqueue="on_commit"):
        with transaction.atomic(using=alias):
            result = tasks.double.using(backend=alias).enqueue(1)
            assert result.enqueued_at is None
            with pytest.raises(names.TaskResultDoesNotExist):
                result.refresh()
        app_of(alias).blocking.close()  # it was used by the commit
    result.refresh()
    assert result.enqueued_at is not None


@pytest.mark.parametrize("make", [task, names.plain_decorator])
def test_what_can_be_no_task_is_refused(make: Any) -> None:
    for function in (any, lambda: None):
        with pytest.raises(names.InvalidTask, match="module level"):
            make()(function)
    with pytest.raises(names.InvalidTask, match="first argument"):
        make(takes_context=True)(tasks.double.func)
    with pytest.raises(TypeError, match="run_after"):
        make(run_after=datetime.now(UTC))(tasks.double.func)


def test_without_a_backend_nothing_is_enqueued() -> None:
    with override_settings(TASKS={}), pytest.raises(Exception, match="default"):
        tasks.double.enqueue(1)
