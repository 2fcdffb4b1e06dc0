"""Documents are, byte for byte, what the commands have always printed as JSON."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from offpath.operating.documents import flow, groups, health, jobs, schedules, workers
from offpath.operating.redaction import NOT_SHOWN, Redaction
from tests.unit.operating import records

DOCUMENTS: dict[str, Callable[[], msgspec.Struct]] = {
    "job": lambda: jobs.describe(records.a_job()),
    "group": lambda: groups.describe(records.a_group(), {"dead": 1, "queued": 3}),
    "queue": lambda: flow.describe_queue(records.a_queue()),
    "limit": lambda: flow.describe_limit(records.a_limit()),
    "schedule": lambda: schedules.describe(records.a_schedule()),
    "occurrence": lambda: schedules.describe_occurrence(records.an_occurrence()),
    "worker": lambda: workers.describe(records.a_member()),
    "health": lambda: health.describe(records.a_fleet()),
}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_document_is_what_was_printed_before(name: str) -> None:
    kept = (Path(__file__).parent / "documents" / f"{name}.json").read_bytes().rstrip()
    assert msgspec.json.encode(DOCUMENTS[name]()) == kept


def test_who_may_not_see_payloads_sees_none() -> None:
    told = jobs.describe(records.a_job(), Redaction(payloads=False))
    assert (told.input, told.result, told.progress) == (NOT_SHOWN,) * 3
    assert [one.traceback for one in told.failures] == [None, NOT_SHOWN]
    assert told.failures[0].message == "password=***"


def test_more_names_may_be_secrets() -> None:
    told = jobs.describe(records.a_job(), Redaction(names=frozenset({"to"})))
    assert told.input == {"to": "***", "password": "hunter2"}


def test_each_document_has_a_schema() -> None:
    kinds = {type(make()) for make in DOCUMENTS.values()}
    _, schemas = msgspec.json.schema_components(kinds)
    assert {kind.__name__ for kind in kinds} <= schemas.keys()
