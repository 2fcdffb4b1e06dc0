"""``offpath jobs signal``: a job that waits is told from the command line."""

from __future__ import annotations

from offpath.runtime.ids import new_id
from tests.cli.conftest import Run, document


def test_a_signal_is_sent_once_by_its_id(run: Run, migrated: str) -> None:
    known = ("jobs", "signal", "order-7", "paid", "--payload", '{"by": "Ada"}', "--id", new_id())
    assert run(*known, "--url", migrated).output == "sent\n"
    assert document(run(*known, "--json", "--url", migrated)) == {"ok": True, "sent": False}


def test_a_payload_that_is_no_json_is_wrong_usage(run: Run, migrated: str) -> None:
    result = run("jobs", "signal", "order-7", "paid", "--payload", "{", "--url", migrated)
    assert result.exit_code == 2
    assert "--payload is not JSON" in result.output


def test_a_signal_that_nobody_can_take_is_warned_of(run: Run, migrated: str) -> None:
    url = ("--url", migrated)
    nobody = run("jobs", "signal", new_id(), "paid", *url)
    assert (nobody.exit_code, nobody.stdout) == (0, "sent\n")
    assert "there is no job" in nobody.stderr
    job = document(run("enqueue", "add", "--json", *url))["id"]
    assert run("jobs", "signal", job, "paid", *url).stderr == ""
    assert run("jobs", "cancel", job, *url).exit_code == 0
    assert (
        "is cancelled: nobody takes the signal" in run("jobs", "signal", job, "paid", *url).stderr
    )
    assert run("jobs", "signal", "order-7", "paid", *url).stderr == ""
