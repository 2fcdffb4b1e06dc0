"""Sizes, names and habits: what STYLE.md asks for and no linter checks."""

from __future__ import annotations

import ast
import itertools
import re
import statistics
from collections.abc import Iterable

import pytest

from tests.architecture import sources
from tests.architecture.sources import PACKAGE, ROOT, Source

LONGEST_FUNCTION = 70
LONGEST_MODULE = 500
MEDIAN_FUNCTION = 8
P95_FUNCTION = 40
APART = 14
"""Errors whose text stands in the line before their raise. Lower it with each that is mended."""
VAGUE = {"utils", "util", "helpers", "helper", "common", "base", "manager", "misc"}

REAL_TIME = {
    "tests/contrib/celery/forty.py": "its tasks take real time, under Celery as here",
    "tests/contrib/celery/forty_calls.py": "Celery's clock is the machine's",
    "tests/integration/held_service.py": "what is in hand stays there until the process is killed",
    "tests/pgbouncer.py": "looks again whether the pooler accepts connections",
    "tests/integration/events_service.py": "its deliveries take real time",
    "tests/integration/limited_service.py": "the handlers of real workers take real time",
    "tests/integration/polling.py": "other processes announce nothing; it asks again",
    "tests/integration/proxy.py": "a slow network is what it stands for",
    "tests/integration/service.py": "the handlers of real workers take real time",
    "tests/integration/storm.py": "its callers hold transactions and pauses for real times",
    "tests/integration/test_commit_order.py": "its writers hold transactions for real times",
    "tests/integration/test_kill_storms.py": "a kill each second is what it stands for",
    "tests/integration/test_webhooks.py": "slow receivers are what it stands for",
    "tests/integration/workflow_service.py": "the handlers of real workers take real time",
    "tests/unit/jobs/worker/rig.py": "handler threads announce nothing; it looks again",
    "tests/unit/store/postgres/conftest.py": "what only the server can tell is asked for again",
}
"""Test files that may let real time pass, each with the reason."""


def test_no_function_is_too_long() -> None:
    sizes = [size for source in sources.project() for size in sources.functions(source)]
    assert [size for size in sizes if size.lines > LONGEST_FUNCTION] == []


def test_functions_are_short_as_a_rule() -> None:
    lines = [size.lines for source in sources.package() for size in sources.functions(source)]
    assert statistics.median(lines) <= MEDIAN_FUNCTION, sources.report()
    assert statistics.quantiles(lines, n=20)[-1] <= P95_FUNCTION, sources.report()


def test_no_module_is_too_long() -> None:
    modules = {source.name: source.lines for source in sources.project()}
    assert {name: size for name, size in modules.items() if size > LONGEST_MODULE} == {}


def test_no_module_has_a_name_that_says_nothing() -> None:
    parts = {source.name: set(source.path.with_suffix("").parts) for source in sources.project()}
    assert [name for name, words in parts.items() if words & VAGUE] == []


def test_no_statement_is_left_for_later() -> None:
    marker = re.compile(r"\b(" + "|".join(("TO" + "DO", "FIX" + "ME", "X" * 3)) + r")\b")
    kinds = {".py", ".sql", ".md", ".toml"}
    folders = ("src", "tests", "docs", "benchmarks", "examples")
    below = [path for folder in folders for path in (ROOT / folder).rglob("*")]
    texts = [path for path in [*below, *ROOT.glob("*")] if path.suffix in kinds]
    found = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in texts
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if marker.search(line)
    ]
    assert texts
    assert found == []


def apart(nodes: Iterable[ast.AST]) -> list[int]:
    """The lines of texts that a name carries to the raise in the next line."""
    bodies = (getattr(node, name, None) for node in nodes for name in ("body", "orelse"))
    pairs = (pair for body in bodies if isinstance(body, list) for pair in itertools.pairwise(body))
    return [
        one.lineno
        for one, after in pairs
        if isinstance(one, ast.Assign)
        and isinstance(after, ast.Raise)
        and isinstance(after.exc, ast.Call)
        and {ast.unparse(each) for each in one.targets} & set(map(ast.unparse, after.exc.args))
    ]


def test_the_text_of_an_error_stands_in_its_raise() -> None:
    found = [f"{s.name}:{line}" for s in sources.package() for line in apart(s.nodes)]
    assert len(found) <= APART, found


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ('if x:\n    text = "no"\n    raise ValueError(text)', [2]),
        ('text = "no"\nlog(text)\nraise ValueError(text)', []),
        ('error = f()\nraise ValueError("no") from error', []),
    ],
)
def test_a_text_apart_from_its_raise_is_seen(text: str, lines: list[int]) -> None:
    assert apart(list(ast.walk(ast.parse(text)))) == lines


def test_only_the_command_line_prints() -> None:
    quiet = [s for s in sources.package() if not s.path.is_relative_to(PACKAGE / "cli")]
    assert _calling(quiet, {"print"}) == []


def test_no_data_is_ever_run() -> None:
    dangerous = {"pickle", "marshal", "shelve", "dill", "cloudpickle", "yaml", "jsonpickle"}
    importing = [
        f"{source.name} imports {name}"
        for source in sources.package()
        for name in sources.imports(source)
        if name.partition(".")[0] in dangerous
    ]
    assert importing == []
    assert _calling(sources.package(), {"eval", "exec", "compile", "__import__"}) == []


def test_the_model_reads_no_clock_and_no_chance() -> None:
    forbidden = re.compile(r"(^|\.)(now|utcnow|today|uuid[1-8]|urandom|getrandom)$")
    model = [s for s in sources.package() if s.path.is_relative_to(PACKAGE / "model")]
    found = [
        f"{source.name}:{call.lineno} {name}"
        for source in model
        for name, call in sources.calls(source)
        if forbidden.search(name)
    ]
    assert model
    assert found == []


def test_tests_do_not_wait_for_time_to_pass() -> None:
    sleepers = {
        source.name: [call.lineno for name, call in sources.calls(source) if _sleeps(name, call)]
        for source in sources.tests()
    }
    found = {name: lines for name, lines in sleepers.items() if lines and name not in REAL_TIME}
    assert found == {}


def test_each_leave_to_sleep_is_still_needed() -> None:
    present = {source.name: source for source in sources.tests()}
    needless = [
        name
        for name in REAL_TIME
        if name not in present
        or not any(_sleeps(called, call) for called, call in sources.calls(present[name]))
    ]
    assert needless == []


def _sleeps(name: str, call: ast.Call) -> bool:
    if name in {"time.sleep", "sleep"}:
        return True
    yields = [ast.unparse(argument) for argument in call.args] in (["0"], ["0.0"])
    return name == "asyncio.sleep" and not yields


def _calling(files: list[Source] | tuple[Source, ...], names: set[str]) -> list[str]:
    return [
        f"{source.name}:{call.lineno} {name}"
        for source in files
        for name, call in sources.calls(source)
        if name in names
    ]


@pytest.mark.parametrize("name", ["STYLE.md", "CONTRIBUTING.md", "CHANGELOG.md", "LICENSE"])
def test_the_pages_that_a_contributor_looks_for_exist(name: str) -> None:
    assert (ROOT / name).stat().st_size > 0


def test_nothing_of_ours_runs_in_the_executor_that_handlers_fill() -> None:
    """A lookup or a file behind forty sleeping handlers is a worker that stands still."""
    uses = re.compile(r"\bto_thread\(|run_in_executor\(None|\bloop\.getaddrinfo\(")
    found = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in sorted((ROOT / "src").rglob("*.py"))
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if uses.search(line)
    ]
    assert found == []


def test_no_lock_of_a_module_is_inherited_by_a_fork() -> None:
    """One that another thread holds stays held in the child, and a cached property has one."""
    bare = re.compile(r"^\w+.*= threading\.R?Lock\(\)|^ *@(functools\.)?cached_property\b")
    found = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in sorted((ROOT / "src").rglob("*.py"))
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if bare.search(line)
    ]
    assert found == [], "use ProcessLock (runtime/forks.py), and a plain property"


PLAIN_LOCKS = {
    "src/offpath/runtime/forks.py": "makes the locks that a child finds free",
    "src/offpath/runtime/threads.py": "made anew in a child, with the pool",
    "src/offpath/health/probe.py": "of a worker, which no child has",
    "src/offpath/economy/ledger/sides.py": "of one comparison, which no child has",
    "src/offpath/store/seam.py": "of a store: a child forgets its parent's and opens its own",
    "src/offpath/store/postgres/log.py": "of a store",
    "src/offpath/store/postgres/renewal.py": "of a store, and no longer waited for than an answer",
    "src/offpath/store/sqlite/presence.py": "of a store",
    "src/offpath/store/sqlite/ledger.py": "of a store",
    "src/offpath/store/sqlite/readers.py": "of a store",
    "src/offpath/store/sqlite/forks.py": "made anew in a child",
}
"""Modules that may have a plain lock between threads, each with the reason."""


def test_what_outlives_a_fork_has_no_plain_lock() -> None:
    """One that another thread holds at the fork is held in the child for ever: `ProcessLock`."""
    found = {
        source.name
        for source in sources.package()
        for node in source.nodes
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "threading"
        and node.attr in {"Lock", "RLock", "Condition", "Semaphore"}
    }
    assert found == PLAIN_LOCKS.keys()
