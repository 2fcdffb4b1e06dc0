"""Tables on a terminal of 80 columns: no word is broken, and ids stay of use."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from offpath.cli import colours
from offpath.cli.tables import fitted, folded
from offpath.runtime.ids import new_id
from tests.cli.conftest import Run
from tests.cli.terminal import on_a_terminal

COLUMNS = ("id", "task", "state", "attempt", "last error")
IDS = ("01a2299a-42f9-7695-a328-68c3acea5577", "01a2299a-42f9-7695-a4c8-68c3acea5577")
ROWS = [
    (IDS[0], "billing.invoices.send_monthly_statement", "queued", "1", ""),
    (IDS[1], "mail", "dead", "3", "ConnectionError: the partner is away, and says nothing of why"),
]


def test_what_fits_is_whole() -> None:
    first, *_ = fitted(COLUMNS, [(IDS[0], "mail", "queued", "1", "")], 80)
    assert first == f"{'id':36}  task  state   attempt  last error"


def test_what_does_not_fit_keeps_headings_and_ids_apart_and_a_line_a_row() -> None:
    head, one, other = fitted(COLUMNS, ROWS, 80)
    assert head.split() == ["id", "task", "state", "attempt", "last", "error"]
    assert max(map(len, (head, one, other))) <= 80
    shown = [line.split()[0] for line in (one, other)]
    assert shown == ["01a2299a-42f9-7695-a328-68c3", "01a2299a-42f9-7695-a4c8-68c3"]
    assert "…" in one
    assert "…" in other


def test_a_column_without_anything_in_it_is_left_out_where_room_is_wanted() -> None:
    columns = (*COLUMNS[:2], "runs", *COLUMNS[2:])
    rows = [(*row[:2], "", *row[2:]) for row in ROWS]
    assert fitted(columns, rows, 80) == fitted(COLUMNS, ROWS, 80)
    assert "runs" in fitted(columns, rows, 200)[0]


def test_a_lone_id_keeps_enough_to_be_nobody_elses() -> None:
    (_, line) = fitted(COLUMNS, ROWS[:1], 70)
    assert line.split()[0] == "01a2299a-42f9-7695-a328-68c3", "others of its batch differ here"
    (_, line) = fitted(COLUMNS, ROWS[1:], 60)
    assert line.split()[0] == "01a2299a-42f9-7695", "headings need the room"


def test_a_shown_beginning_is_no_other_ids_of_its_batch() -> None:
    batch = [new_id() for _ in range(500)]
    (_, line) = fitted(COLUMNS, [(batch[250], *ROWS[1][1:])], 80)
    assert [one for one in batch if one.startswith(line.split()[0])] == [batch[250]]


def test_a_spare_column_in_which_all_rows_have_the_same_makes_room() -> None:
    columns = (*COLUMNS[:4], "due", *COLUMNS[4:])
    rows = [(id_, "mail", "dead", "1", "", "GateUnsatisfiable: of 3 parts") for id_ in IDS]
    head, line, _ = fitted(columns, rows, 80, ("state", "attempt"))
    assert head.split() == ["id", "task", "last", "error"]
    assert line.endswith("GateUnsatisfiable: of 3 parts")
    other = [(*rows[0][:2], "queued", *rows[0][3:]), rows[1]]
    assert fitted(columns, other, 70, ("state", "attempt"))[0].split()[2] == "state"
    assert "attempt" in fitted(columns, rows, 200, ("attempt",))[0]


def test_a_terminal_that_is_too_narrow_breaks_no_heading() -> None:
    head, *_ = fitted(COLUMNS, ROWS, 10)
    assert head.split() == ["id", "task", "state", "attempt", "last", "error"]


def test_a_name_that_is_no_id_of_ours_is_cut_nowhere() -> None:
    name = "invoice-of-the-month-of-may-and-of-the-customer-4711"
    (_, line) = fitted(COLUMNS, [(name, *ROWS[1][1:])], 80)
    assert line.startswith(f"{name}  ")


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
@pytest.mark.parametrize(
    "words",
    [("jobs", "list"), ("outbox", "list"), ("workers",), ("audit", "list"), ("endpoints", "list")],
)
def test_lists_fit_a_terminal_of_80_columns(
    run: Run, migrated: str, here: Path, words: tuple[str, ...]
) -> None:
    """F5: through a terminal, and the beginning that it shows stands for the job."""
    task = "billing.invoices.send_monthly_statement"
    for number in range(3):
        given = (task, f"n={number}", "--queue", "a-queue-of-some-length")
        run("enqueue", *given, "--url", migrated)
    address = f"https://shop.example/{'hooks/' * 9}"
    run("endpoints", "add", "shop", address, "--url", migrated)
    lines, _ = on_a_terminal(here, *words, "--url", migrated)
    assert [line for line in lines if len(_plain(line)) > 80] == []
    if words == ("endpoints", "list"):
        assert len(lines) == 2, "a URL is cut, not broken"
    assert "\x1b" not in lines[0], "headings are plain in every table"
    if words == ("audit", "list"):
        assert "outcome" in lines[0]
        assert [line.split()[1] for line in lines[2:]] == ["job.enqueue"] * 3
    if words == ("jobs", "list"):
        assert len(lines) == 4
        shown = lines[1].split()[0]
        whole = json.loads(run("jobs", "show", shown, "--json", "--url", migrated).output)["id"]
        assert whole.startswith(shown)
        assert whole != shown


def _plain(line: str) -> str:
    return re.sub(r"\x1b\[\d*m", "", line)


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
def test_lists_of_schedules_break_no_time_and_no_job(run: Run, migrated: str, here: Path) -> None:
    given = ("--cron", "0 3 * * *", "--zone", "Europe/Berlin", "--task", "billing.statements.send")
    run("schedules", "create", "nightly-statements", *given, "--url", migrated)
    run("schedules", "trigger", "nightly-statements", "--url", migrated)
    lines: list[str] = []
    for words in (("list",), ("history", "nightly-statements")):
        lines, _ = on_a_terminal(here, "schedules", *words, "--url", migrated)
        assert len(lines) == 2
        assert len(_plain(lines[1])) <= 80
    assert "…" not in lines[1]
    (shown,) = (one for one in lines[1].split() if len(one) == 36)
    assert run("jobs", "show", shown, "--url", migrated).exit_code == 0


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
def test_headings_of_tables_that_go_on_below_are_plain_too(migrated: str, here: Path) -> None:
    lines, _ = on_a_terminal(here, "config", "show")
    assert "\x1b" not in "".join(lines)


def test_long_cells_go_on_below_and_nothing_ends_in_blanks() -> None:
    rows = [("fine", "rows", "no row that should not be possible " * 4), ("fine", "log", "short")]
    lines = folded(("", "check", "finding"), rows, 60)
    assert max(map(len, lines)) <= 60
    assert [line for line in lines if line != line.rstrip()] == []
    assert " ".join("\n".join(lines).split()).count("no row") == 4
    assert lines[-1] == "fine  log    short"


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
def test_states_are_coloured_on_a_terminal_alone(run: Run, migrated: str, here: Path) -> None:
    run("enqueue", "add", "a=1", "b=2", "--url", migrated)
    run("jobs", "cancel", "--task", "add", "--yes", "--url", migrated)
    run("enqueue", "add", "a=1", "b=2", "--url", migrated)
    words = ("jobs", "list", "--url", migrated)
    lines, _ = on_a_terminal(here, *words)
    assert [line.count("\x1b[90mcancelled\x1b[0m") for line in lines] == [0, 0, 1]
    plain, _ = on_a_terminal(here, *words, NO_COLOR="1")
    assert _plain(lines[2]) == plain[2], "columns stay in place"
    assert "\x1b" not in run(*words).output
    told, code = on_a_terminal(here, "health", "--url", migrated)
    assert (code, told[-1]) == (1, "\x1b[31munhealthy\x1b[0m: no worker is live")


@pytest.mark.parametrize(
    ("text", "painted"),
    [
        ("healthy", "\x1b[32mhealthy\x1b[0m"),
        ("warning: 2 late", "\x1b[33mwarning\x1b[0m: 2 late"),
        ("open members", "open members"),
        ("", ""),
    ],
)
def test_a_line_is_coloured_where_it_is_a_verdict(text: str, painted: str) -> None:
    assert colours.verdict(text) == painted
