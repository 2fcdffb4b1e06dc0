"""One program, two dictionaries: what both SQL databases say, they say by the same names."""

from __future__ import annotations

import ast
import difflib
from itertools import combinations
from typing import TYPE_CHECKING

import pytest

from tests.architecture import sources
from tests.architecture.statements import STORE, blocks, columns

if TYPE_CHECKING:
    from collections.abc import Iterator

SHARED = {
    "actions",
    "browse",
    "endpoints",
    "events",
    "flow",
    "gates",
    "health",
    "jobs",
    "ledger_reads",
    "ledger_upkeep",
    "letters",
    "messages",
    "reads",
    "routers",
    "schedules",
    "signals",
    "stats",
    "steps",
    "suspects",
    "waits",
    "workers",
}
"""The files of statements that programs of ``store/programs`` use, by their stems."""

ONE_SIDED = {
    "late_workers": "SQLite looks before it takes the write lock of a rescue",
    "count_gates_now": "Postgres passes over gates that others hold",
    "count_watches": "SQLite changes one table in a statement, so it notes the ends first",
    "find_some": "SQLite plans without the values, so few jobs have one of their own",
    "some_limits": "SQLite plans without the values, so few keys have one of their own",
    "some_messages": "SQLite plans without the values, so few messages have one of their own",
}
"""Blocks of those files that one database has alone, each with the reason."""

UNLIKE = {
    "count_gates": "SQLite changes one table in a statement, so it is told the sums",
    "add_groups": "SQLite keeps no time of a group's end, and asks what is new",
    "count_groups": "SQLite keeps no time of a group's end",
    "catch_signals": "SQLite has looked for the signals before it writes the jobs",
    "enqueue": "a hot statement: SQLite's rows share what they have in common",
    "enqueue_one": "a hot statement: Postgres' is for jobs that leave nearly all at its default",
    "holders": "SQLite tells the end of a key's period, Postgres' clock whether it is over",
    "replace_holders": "SQLite knows the run time before it writes",
    "promote": "a hot statement: SQLite walks lanes that it has just read",
    "glance": "SQLite sees the locks of workers and the limits beside the statement",
    "take_chosen": "a hot statement: SQLite has decided under its lock what is to be taken",
    "held": "a hot statement: its rows are those of each database's lease",
    "running_by_fair_key": "SQLite has an index by fair key, so it asks for those at hand",
    "admit_jobs": "a hot statement: SQLite names jobs by their rows",
    "close_limits": "SQLite forgets keys by their time, Postgres by their order",
    "hold_untaken": "SQLite has chosen which jobs make way",
    "make_limits": "SQLite keeps with it what the last enqueue has said of a key",
    "pick_held": "SQLite reads lanes, Postgres keys with their shares of a pass",
    "recount_limits": "SQLite is told how many jobs of each key run",
    "save_limits": "SQLite's triggers count what was admitted",
    "record": "SQLite has no clock, so it is told the time",
    "add_log": "SQLite numbers rows itself, and answers which events are new",
    "add_messages": "SQLite numbers rows itself, and adds the delay before",
    "change_sides": "SQLite answers what was changed, Postgres raises unless all were",
    "done_messages": "a hot statement: SQLite answers what the end has made due",
    "known_messages": "SQLite looks for ids and for keys of the inbox at once",
    "lease_messages": "a hot statement: SQLite goes from stream to stream",
    "lease_ordered": "a hot statement: SQLite goes from stream to stream",
    "settle_messages": "a hot statement: SQLite answers what the end has made due",
}
"""Blocks of one name that take or answer something else, each with the reason."""

_POSTGRES = blocks("postgres")
_SQLITE = blocks("sqlite")


def _of(file: str) -> set[str]:
    return {each.name for each in (*_POSTGRES.values(), *_SQLITE.values()) if each.file == file}


def _in_both() -> list[str]:
    shared = {name for file in SHARED for name in _of(file)}
    alike = _POSTGRES.keys() & _SQLITE.keys()
    return sorted((shared | alike) - ONE_SIDED.keys() - UNLIKE.keys())


@pytest.mark.parametrize("file", sorted(SHARED))
def test_both_databases_have_the_same_blocks_in_files_of_the_same_name(file: str) -> None:
    names = _of(file) - ONE_SIDED.keys()
    assert names
    for database in (_POSTGRES, _SQLITE):
        assert {name: database[name].file for name in names if name in database} == dict.fromkeys(
            names, file
        )


@pytest.mark.parametrize("name", _in_both())
def test_a_statement_takes_and_answers_the_same_in_both(name: str) -> None:
    postgres, sqlite = _POSTGRES[name], _SQLITE[name]
    if not sqlite.nothing:
        assert sqlite.parameters == postgres.parameters
        assert sqlite.columns == postgres.columns


def test_only_a_database_with_one_writer_leaves_a_statement_out() -> None:
    assert [each.name for each in _POSTGRES.values() if each.nothing] == []


def test_each_exception_is_still_one() -> None:
    needless = [name for name in ONE_SIDED if name in _POSTGRES and name in _SQLITE]
    needless += [name for name in UNLIKE if _is_alike(name)]
    assert needless == []
    assert all([*ONE_SIDED.values(), *UNLIKE.values()])
    assert len(ONE_SIDED) + len(UNLIKE) < 40


def _is_alike(name: str) -> bool:
    postgres, sqlite = _POSTGRES[name], _SQLITE[name]
    return (sqlite.parameters, sqlite.columns) == (postgres.parameters, postgres.columns)


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("select 1", 1),
        ("select a, f(b, c), (select d, e from t) from t where x in (1, 2)", 3),
        ("select a, ', from ' from t", 2),
        ("with c as (select a, b from t) select x from c", 1),
        ("insert into t (a, b) select c, d from e", 0),
        ("insert into t (a, b) values (1, 2) returning a, b", 2),
        ("with c as (select 1) update t set a = 1, b = 2 where x returning f(a, b)", 1),
        ("delete from t where a = 1", 0),
        ("select a, b union all select c, d", 2),
        ("begin immediate", 0),
    ],
)
def test_the_columns_of_an_answer_are_counted(sql: str, expected: int) -> None:
    assert columns(sql) == expected


# -- one text for one error ----------------------------------------------------------------------

ALIKE = 0.72
"""Texts of one class of errors that are more alike than that say the same."""

OWN = {"faults", "schema", "session", "backup"}
"""Files that tell of one database, or of one server, in its own words."""


def _raised() -> list[tuple[str, str, str]]:
    """The places of the store's errors, each with its class, and its text with holes for values."""
    found = []
    for source in sources.package():
        if source.path.is_relative_to(STORE) and _settled(source):
            found += [(f"{source.name}:{line}", kind, text) for line, kind, text in _errors(source)]
    return found


def _settled(source: sources.Source) -> bool:
    return source.path.stem not in OWN


def _errors(source: sources.Source) -> Iterator[tuple[int, str, str]]:
    for function in ast.walk(source.tree):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            texts = _named_texts(function)
            for node in ast.walk(function):
                if isinstance(node, ast.Call) and node.args and _is_error(node.func):
                    text = _text(node.args[0], texts)
                    if text:
                        yield node.lineno, ast.unparse(node.func), text


def _is_error(called: ast.expr) -> bool:
    import offpath.errors

    return isinstance(called, ast.Name) and isinstance(
        getattr(offpath.errors, called.id, None), type
    )


def _named_texts(function: ast.AST) -> dict[str, ast.expr]:
    return {
        target.id: node.value
        for node in ast.walk(function)
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }


def _text(node: ast.expr, texts: dict[str, ast.expr]) -> str:
    if isinstance(node, ast.Name):
        return _text(texts[node.id], {}) if node.id in texts else ""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(part, {}) or "{}" for part in node.values)
    return ""


def test_one_error_has_one_text() -> None:
    raised = sorted(set(_raised()))
    assert len(raised) > 20
    alike = [
        f"{kind}: {first} {text!r}\n    {second} {other!r}"
        for (first, kind, text), (second, other_kind, other) in combinations(raised, 2)
        if kind == other_kind and not _together(first, second) and _alike(text, other)
    ]
    assert alike == [], "\n" + "\n".join(alike)


def _together(first: str, second: str) -> bool:
    """Texts of one file are read together."""
    return first.partition(":")[0] == second.partition(":")[0]


def _alike(text: str, other: str) -> bool:
    return difflib.SequenceMatcher(None, text, other, autojunk=False).ratio() > ALIKE
