"""The SQL function: what triggers, psql and other languages enqueue with."""

from __future__ import annotations

import psycopg
import pytest

from offpath.model.job import JobState
from offpath.model.lease import LeaseRequest
from tests.conformance.builders import worker_info

from .conftest import Ask, Opened


async def test_what_sql_enqueues_is_leased(opened: Opened, ask: Ask) -> None:
    store = await opened()
    ((job,),) = ask("select offpath.enqueue('mail.send', '{\"to\": \"a\"}', priority => 7)")
    await store.register(worker_info(), lease_seconds=30)
    leased = await store.lease(LeaseRequest(worker="w1", limit=5, tasks={"mail.send": 5}))
    assert [(one.id, one.priority, one.attempt) for one in leased.jobs] == [(str(job), 7, 1)]
    assert leased.jobs[0].input == '{"to": "a"}'
    assert leased.jobs[0].group_id == str(job)


async def test_ids_sort_by_time(ask: Ask) -> None:
    ids = [
        row[0] for row in ask("select offpath.new_id(), pg_sleep(0.002) from generate_series(1, 9)")
    ]
    assert ids == sorted(ids)
    assert {one.version for one in ids} == {7}


async def test_later_and_unique(opened: Opened, ask: Ask) -> None:
    store = await opened()
    ((first,),) = ask("select offpath.enqueue('t', delay => '1 hour', unique_key => 'k')")
    ((again,),) = ask("select offpath.enqueue('t', unique_key => 'k')")
    assert again == first
    (record,) = await store.get([str(first)])
    assert record.state is JobState.QUEUED
    assert (record.run_at - record.enqueued_at).total_seconds() == 3600
    assert record.unique_key == "t:k"


def test_it_lives_and_dies_with_the_callers_transaction(url: str, ask: Ask) -> None:
    with psycopg.connect(url) as connection:
        connection.execute("select offpath.enqueue('t')")
        connection.rollback()
    assert ask("select count(*) from offpath.job") == [(0,)]


def test_it_works_in_a_trigger(ask: Ask) -> None:
    ask(
        """
        create table public.orders (id int);
        create function public.on_order() returns trigger language plpgsql as $$
        begin
            perform offpath.enqueue('order.placed', jsonb_build_object('id', new.id));
            return new;
        end $$;
        create trigger placed after insert on public.orders
            for each row execute function public.on_order()
        """
    )
    ask("insert into public.orders select generate_series(1, 3)")
    rows = ask("select input::jsonb ->> 'id' from offpath.job order by 1")
    assert rows == [("1",), ("2",), ("3",)]


@pytest.mark.parametrize(
    ("call", "says"),
    [("offpath.enqueue('')", "task must be given"), ("offpath.enqueue('t', '[1]')", "JSON object")],
)
def test_nonsense_is_refused(ask: Ask, call: str, says: str) -> None:
    with pytest.raises(psycopg.errors.InvalidParameterValue, match=says):
        ask(f"select {call}")
