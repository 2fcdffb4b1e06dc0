"""A project's own tests: tasks on memory in a ``TestCase``, real tables, empty ones after."""

from __future__ import annotations

import threading
import unittest
from typing import TYPE_CHECKING, Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.db import connections, transaction
from django.test import TestCase, TransactionTestCase, override_settings

from offpath.contrib.django import app_of, names
from offpath.contrib.django.test import EmptyTables, empty_tables, offpath_memory
from offpath.testing import NeverIdle
from tests.contrib.django import tasks
from tests.contrib.django.conftest import with_options, work
from tests.contrib.django.test_backend import FAILED, READY, SUCCESSFUL, count

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.fixture(autouse=True)
def _nothing_seen() -> Iterator[None]:
    tasks.SEEN.clear()
    yield
    tasks.SEEN.clear()


def passes(alias: str, test: Callable[[Any], None], *kinds: type) -> None:
    """Run a function as the test of a class of Django's, on one database."""
    cls: Any = type("Test", kinds or (TestCase,), {"test": test, "databases": {alias}})
    result = unittest.TestResult()
    unittest.defaultTestLoader.loadTestsFromTestCase(cls).run(result)
    assert result.testsRun == 1
    assert not result.failures + result.errors, (result.failures + result.errors)[0][1]


def written(alias: str) -> list[str]:
    with connections[alias].cursor() as cursor:
        cursor.execute("select text from note order by text")
        return [text for (text,) in cursor.fetchall()]


def test_handlers_see_the_rows_of_the_test_and_are_rolled_back_with_it(alias: str) -> None:
    def test(case: Any) -> None:
        with connections[alias].cursor() as cursor:
            cursor.execute("insert into note (text) values ('mine')")
        with offpath_memory(alias) as jobs:
            first = tasks.copy_notes.using(backend=alias).enqueue(alias, "sync")
            assert first.status == READY
            assert jobs.drain().succeeded == 1
            later = tasks.copy_notes_later.using(backend=alias).enqueue(alias, "async")
            assert jobs.drain().succeeded == 1
            first.refresh()
            later.refresh()
        assert (first.status, first.return_value) == (SUCCESSFUL, 1)
        assert later.return_value == 2
        assert written(alias) == ["async", "mine", "sync"]
        assert [threading.get_ident()] * 2 == tasks.SEEN

    passes(alias, test)
    assert written(alias) == []
    assert count(alias) == 0, "nothing was written to the real tables"


def test_what_is_enqueued_is_kept_exactly_while_its_block_is(alias: str) -> None:
    def test(case: Any) -> None:
        double = tasks.double.using(backend=alias)
        with offpath_memory(alias) as jobs:
            with transaction.atomic(using=alias):
                kept = double.enqueue(1)
                with pytest.raises(LookupError), transaction.atomic(using=alias):
                    gone = double.enqueue(2)
                    assert double.get_result(gone.id).args == [2]
                    raise LookupError
            assert jobs.drain().succeeded == 1
            assert double.get_result(kept.id).return_value == 2
            with pytest.raises(names.TaskResultDoesNotExist):
                double.get_result(gone.id)
            assert jobs.drain().total == 0

    passes(alias, test)


def test_what_a_task_enqueues_is_run_too_and_time_is_moved_by_hand(alias: str) -> None:
    def test(case: Any) -> None:
        with offpath_memory(alias) as jobs:
            tasks.follow.using(backend=alias).enqueue(alias, 5)
            assert jobs.drain().succeeded == 2
            later = jobs.clock.now() + (3600 * jobs.app.clock.now().resolution * 10**6)
            waits = tasks.double.using(backend=alias, run_after=later).enqueue(1)
            assert jobs.drain().total == 0
            jobs.clock.advance(3600)
            assert jobs.drain().succeeded == 1
            waits.refresh()
            assert waits.status == SUCCESSFUL

    passes(alias, test)


def test_a_failure_is_in_the_result_and_the_rest_of_the_test_goes_on(alias: str) -> None:
    def test(case: Any) -> None:
        with offpath_memory(alias) as jobs:
            failing = tasks.note.using(backend=alias).enqueue(alias, "a", fail=True)
            assert jobs.drain().dead == 1
            failing.refresh()
            assert failing.status == FAILED
            assert failing.errors[0].exception_class is LookupError
            assert written(alias) == []

    passes(alias, test)


def test_it_decorates_and_nothing_is_left_for_the_next(alias: str) -> None:
    @offpath_memory(alias)
    def test(case: Any) -> None:
        tasks.double.using(backend=alias).enqueue(1)

    for _ in range(2):
        passes(alias, test)
    with offpath_memory(alias) as jobs:
        assert jobs.drain().total == 0


@pytest.mark.parametrize("mode", ["on_commit", "now"])
def test_other_ways_to_enqueue_are_drained_too(alias: str, mode: str) -> None:
    def test(case: Any) -> None:
        with offpath_memory(alias) as jobs:
            result = tasks.double.using(backend=alias).enqueue(4)
            assert jobs.drain().succeeded == 1
            result.refresh()
            assert result.return_value == 8

    with with_options(alias, enqueue=mode):
        passes(alias, test)


def test_work_that_never_ends_is_told(alias: str) -> None:
    def test(case: Any) -> None:
        with offpath_memory(alias) as jobs:
            tasks.again.using(backend=alias).enqueue(alias)
            with pytest.raises(NeverIdle, match="repeat"):
                jobs.drain(limit=5)

    passes(alias, test)


def test_without_the_swap_it_works_on_the_real_tables(alias: str) -> None:
    def test(case: Any) -> None:
        result = tasks.double.using(backend=alias).enqueue(1)
        assert tasks.double.using(backend=alias).get_result(result.id).status == READY
        assert count(alias) == 1

    passes(alias, test)
    assert count(alias) == 0


def test_a_test_that_commits_leaves_our_tables_empty(alias: str) -> None:
    def test(case: Any) -> None:
        result = tasks.double.using(backend=alias).enqueue(1)
        work(alias)
        result.refresh()
        assert result.return_value == 2
        tasks.double.using(backend=alias).enqueue(1)
        assert count(alias) == 2

    passes(alias, test, EmptyTables, TransactionTestCase)
    assert count(alias) == 0
    tasks.double.using(backend=alias).enqueue(1)
    work(alias)
    with app_of(alias).blocking as client:
        assert client.jobs.count() == 1
    empty_tables(alias)
    assert count(alias) == 0


def test_a_backend_of_somebody_else_is_refused() -> None:
    other = {"default": {"BACKEND": f"{names.HOME}.backends.immediate.ImmediateBackend"}}
    with (
        override_settings(TASKS=other),
        pytest.raises(ImproperlyConfigured, match="OffpathBackend"),
        offpath_memory(),
    ):
        raise AssertionError("it began")
