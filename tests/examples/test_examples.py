"""Each example runs as it is, in an empty folder, and prints what it says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.brokers import find_broker
from tests.conftest import missing_server
from tests.servers import NoServer

FOLDER = Path(__file__).parents[2] / "examples"
_RECEIVED = [
    "received: order.paid",
    "200 {'status': 'accepted'}",
    "200 {'status': 'duplicate'}",
    "401 {'refused': 'no_match'}",
    "401 {'refused': 'too_old'}",
]
PRINTED = {
    "01_first_job.py": ["result: 3"],
    "02_retry_and_snooze.py": ["attempt 2, delivery 3", "failures kept: ['ConnectionError']"],
    "03_transactional_enqueue.py": ["after a rollback: 0", "after a commit: 1"],
    "04_unique_jobs.py": [
        "same job: True made anew: False",
        "another amount for the same order is refused",
        "A-1 charged 500",
    ],
    "05_groups.py": ["words: 6"],
    "06_limits.py": ["crawled: 6 at once: {'a.example': 1, 'b.example': 1}"],
    "07_blocking_client.py": ["result: HELLO", "succeeded: 1"],
    "08_dead_letters.py": ["dead: aborted", "P-1 delivered"],
    "09_sweep.py": [
        "failed {'failed': ('broken 1', 'broken 2')}",
        "clean {'reminded': ('cart 3', 'cart 4')}",
        "empty {}",
    ],
    "10_settlement_run.py": [
        "first:  degraded {'attempted': 5, 'credited': 3, 'failed': 2, 'skipped': 0}",
        "second: clean {'attempted': 5, 'credited': 2, 'failed': 0, 'skipped': 3}",
        "{'player-1': 100, 'player-2': 200, 'player-3': 300, 'player-4': 400, 'player-5': 450}",
    ],
    "11_outbox.py": [
        "relayed by hand: {'relayed': 1}",
        "all in all: ['opened of A-1', 'paid of A-1']",
    ],
    "12_inbox.py": ["new: True False", "shipping A-1", "second message: rejected"],
    "13_webhook_receiver_fastapi.py": [
        "received: order.paid",
        '200 {"status":"accepted"}',
        '200 {"status":"duplicate"}',
        '401 {"detail":"no_match"}',
        '401 {"detail":"too_old"}',
    ],
    "14_webhook_receiver_flask.py": _RECEIVED,
    "15_webhook_receiver_django.py": _RECEIVED,
    "nightly_report": [
        "eu: 26 March, made for 02:30 (01:30 UTC)",
        "eu: 27 March, made for 02:30 (01:30 UTC)",
        "eu: 28 March, made for 03:00 (01:00 UTC)",
        "eu: 29 March, made for 02:30 (00:30 UTC)",
        "eu: 01 April, made for 02:30 (00:30 UTC)",
        "eu: 04 April, made for 02:30 (00:30 UTC)",
        "['fired', 'fired', 'fired', 'fired', 'missed', 'missed', 'fired', 'fired']",
    ],
    "19_economy_service.py": [
        "webhook: 202 accepted",
        "again:   200 duplicate",
        "forged:  401 no_match",
        "who?     401 AUTH.UNAUTHORIZED",
        "too much 200 INSUFFICIENT_FUNDS",
        "cheap    200 PRICE_CHANGED",
        "spend:   200 committed",
        "again:   200 duplicate",
        "changed: 422 OP.KEY_REUSED",
        "ann has CREDIT:10.00",
    ],
    "20_dashboard.py": [
        "without a token: 401",
        "3 dead send_invoice aborted - invoice <…>: the provider knows no key <…> long",
        "an api_key is shown as ***",
    ],
    "fastapi_shop": [
        "/orders/1 201",
        "/orders/2?paid=false 402",
        "/mails?say=hello 202",
        *("/hooks/payments 202", "/hooks/payments 200", "/hooks/payments 401"),
        "mail: hello",
        "parcel for order 1",
        "receipt for order 1",
    ],
    "django_shop": ["201 409", "SUCCESSFUL receipt of lamp", "orders: 1 receipts: 1"],
    "22_flask_orders.py": ["201", "['counted', 'receipt for order 7 of 1']"],
    "23_logs.py": [
        "order 7 delivered task=send_receipt attempt=1",
        "outside of a job task=None attempt=None",
    ],
    "24_opentelemetry.py": [
        "sent within the request: True",
        "linked to the enqueue: True",
        "a trace of its own: True",
        "order: 7",
    ],
    "25_sentry.py": [
        "error: ConnectionError charge attempt 2",
        "monitor: nightly-report in_progress",
        "monitor: nightly-report ok",
    ],
    "llm_pipeline": [
        "acme: outline <12 words>, parts <5 words> <5 words> <2 words>",
        "acme asked: 5",
        "globex: 2 of 6 parts wait for the next minute",
    ],
    "outbox_to_nats": [
        *("taken from NATS: new", "taken from NATS: known already") * 2,
        "['invoice of A-1: 19.99', 'invoice of A-3: 7.25']",
    ],
    "marketplace": [
        "credits come in, and are spent",
        "  ann buys 500 credits",
        "  bob buys 300 credits",
        "  the payment page sends bob's again: done before, nothing happened twice",
        "  ann spends 100",
        "  bob spends 200",
        "  bob spends 200 more: declined, INSUFFICIENT_FUNDS",
        "  bob gets A-2 refunded",
        "  bob's bank takes 50 back",
        "promos expire, subscriptions renew",
        "  ann gets 20 to try",
        "  ann subscribes for 100 a month, the promo first",
        "  a month later: 1 renewed, 1 expired",
        "  ann has CREDIT:220.00, and CREDIT:0.00 to try",
        "sellers are paid, by a provider that loses its answers",
        "  sue asks for 150",
        "  asked 2 times, paid 1 time: USD:0.75",
        "  the provider reports it settled",
        "  owed 2.87 USD, held 3.25 USD",
        "  the platform takes its fees: CREDIT:24.00",
        "the books are sealed; then somebody edits the database",
        "  proved: 12 accounts, 44 links, holds: True",
        "  a raw write is refused: offpath: an account of the ledger is as its last link says",
        "  caught: mismatch True",
        "  proved again: holds: False, bob:spendable: truncated",
    ],
    "document_ingestion": [
        "manual: 3 of 3 parts indexed",
        "letter: 1 of 1 parts indexed",
        "at once: 2 refused: 1",
    ],
    "17_order_fulfilment.py": [
        *(f"{order}: charged" for order in ("A-1", "B-2", "C-3")),
        *(f"{order}: please approve" for order in ("A-1", "B-2", "C-3")),
        "A-1: parcel-A-1, approved by Ada",
        "B-2: reservation cancelled",
        "B-2: refunded",
        "C-3: refunded",
        "B-2: dead, no truck goes there",
        "C-3: dead, not approved by nobody",
    ],
    "22_from_celery.py": [
        "before: PENDING",
        "after: SUCCESS 30",
        "native: 30 in all, attempt 1",
        (
            "refused: @task(soft_time_limit=): timeout= and ctx.cancelled: "
            "no error can be raised in the thread of a handler"
        ),
    ],
}


BROKERS = {"outbox_to_nats": "nats"}
"""The broker that an example needs."""


@pytest.mark.parametrize("name", PRINTED)
def test_an_example_prints_what_it_says(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kind := BROKERS.get(name):
        try:
            monkeypatch.setenv(f"{kind.upper()}_URL", find_broker(kind))
        except NoServer as error:
            missing_server(str(error))
    done = subprocess.run(
        [sys.executable, FOLDER / name],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert done.stdout.splitlines() == PRINTED[name], done.stderr
    assert done.returncode == 0


def test_no_example_is_left_out() -> None:
    found = {path.name for path in FOLDER.glob("*.py")}
    found |= {path.parent.name for path in FOLDER.glob("*/__main__.py")}
    assert found == set(PRINTED)


def test_each_folder_has_a_short_readme_that_says_how_it_is_run() -> None:
    for folder in (path.parent for path in FOLDER.glob("*/__main__.py")):
        text = (folder / "README.md").read_text("utf-8")
        assert f"$ python examples/{folder.name}" in text
        assert 6 <= len(text.splitlines()) <= 20, folder.name
