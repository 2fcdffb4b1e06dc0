"""Imports: the layers, no cycles, and a light ``import offpath``."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import grimp
import pytest

import offpath
from tests.architecture.sources import ROOT

if TYPE_CHECKING:
    from collections.abc import Mapping

HEAVY = {
    "aiosqlite", "asyncpg", "attrs", "click", "django", "hypothesis", "prometheus_client",
    "psycopg", "psycopg_pool", "pydantic", "pytest", "rich", "sqlalchemy", "sqlite3", "tzdata",
    "aio_pika", "aiohttp", "aiormq", "cryptography", "multiprocessing", "nats", "redis",
    "starlette", "alembic", "fastapi", "flask", "celery", "kombu", "aiokafka", "aiobotocore",
    "botocore", "confluent_kafka", "moto", "opentelemetry", "sentry_sdk", "structlog",
}  # fmt: skip
"""Drivers, terminal parts and other people's models: loaded when used, never on import."""

APP = "import offpath; offpath.App"
"""What every process of a service loads. The package itself loads a name when it is asked for."""
MODULES_ON_IMPORT, MODULES_OF_APP = 16, 324
"""Budgets of modules, standard library included: they mean the same on every machine."""


def _loaded_by(statement: str) -> set[str]:
    script = f"import sys, json; {statement}; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    return set(json.loads(done.stdout))


def test_importing_offpath_loads_nothing_heavy() -> None:
    roots = {name.partition(".")[0] for name in _loaded_by(APP)}
    assert "offpath" in roots
    assert roots & HEAVY == set()


def test_routers_and_webhooks_are_loaded_when_they_are_used() -> None:
    late = {"offpath.events.router", "offpath.events.door", "offpath.events.webhook.signature"}
    assert late & _loaded_by(APP) == set()
    used = "import offpath.events as e; e.Router; e.Incoming; e.Verifier"
    assert late <= _loaded_by(used)


def test_workers_and_sweeps_are_loaded_when_they_are_used() -> None:
    """Most processes of a service only enqueue."""
    late = {"offpath.jobs.worker.worker", "offpath.sweeps.catalogue", "offpath.health.thresholds"}
    assert late & _loaded_by("import offpath; offpath.App('sqlite:///unused.db')") == set()
    assert late <= _loaded_by("import offpath; offpath.App().sweeps.list(); offpath.App().worker()")


INTEGRATIONS = (
    *("alembic", "celery", "django", "fastapi", "flask", "opentelemetry", "sentry", "sqlalchemy"),
    *("starlette", "structlog"),
)


def test_an_integration_is_loaded_when_it_is_imported_and_loads_no_other() -> None:
    light = _loaded_by("import offpath; offpath.App('sqlite:///unused.db')")
    assert {name for name in light if name.startswith("offpath.contrib")} == set()
    for name in set(INTEGRATIONS) - {"fastapi"}:
        loaded = _loaded_by(f"import offpath.contrib.{name}")
        others = {f"offpath.contrib.{other}" for other in INTEGRATIONS if other != name}
        assert loaded & others == set()


def test_the_ledger_is_loaded_when_it_is_used() -> None:
    late = {"offpath.model.ledger.book", "offpath.model.ledger.plain", "offpath.economy"}
    light = _loaded_by("import offpath; offpath.App('sqlite:///unused.db')")
    assert {name for name in light if name.startswith("offpath.model.ledger")} == set()
    assert late & light == set()
    assert late <= _loaded_by("import offpath.economy, offpath.model.ledger.plain")


@pytest.mark.parametrize(
    ("statement", "budget"), [("import offpath", MODULES_ON_IMPORT), (APP, MODULES_OF_APP)]
)
def test_importing_offpath_stays_within_its_budget(statement: str, budget: int) -> None:
    loaded = _loaded_by(statement) - _loaded_by("pass")
    assert len(loaded) <= budget, sorted(loaded)


def test_each_public_name_is_where_the_package_looks_for_it() -> None:
    for name in offpath.__all__:
        assert getattr(offpath, name) is not None
        assert name in vars(offpath) or name == "__version__"  # asked for once, then at hand


def test_the_layers_hold() -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "from importlinter.cli import lint_imports_command as m; m()",
            "--no-cache",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 broken" in done.stdout


def test_no_module_imports_itself_through_others() -> None:
    graph = grimp.build_graph("offpath", exclude_type_checking_imports=False, cache_dir=None)
    edges = {name: graph.find_modules_directly_imported_by(name) for name in graph.modules}
    assert len(edges) > 1
    assert cycles(edges) == []


@pytest.mark.parametrize(
    ("edges", "expected"),
    [
        ({"a": {"b"}, "b": {"c"}, "c": set()}, []),
        ({"a": {"b"}, "b": {"a"}, "c": {"a"}}, [["a", "b"]]),
        ({"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": set()}, [["a", "b", "c"]]),
    ],
)
def test_cycles_are_found(edges: Mapping[str, set[str]], expected: list[list[str]]) -> None:
    assert cycles(edges) == expected


def cycles(edges: Mapping[str, set[str]]) -> list[list[str]]:
    """The groups of modules that reach each other, each sorted."""
    reach = {name: _reachable(name, edges) for name in edges}
    groups = {
        tuple(sorted({name} | {other for other in reach[name] if name in reach.get(other, ())}))
        for name in edges
        if name in reach[name]
    }
    return [list(group) for group in sorted(groups)]


def _reachable(start: str, edges: Mapping[str, set[str]]) -> set[str]:
    seen: set[str] = set()
    ahead = list(edges.get(start, ()))
    while ahead:
        name = ahead.pop()
        if name not in seen:
            seen.add(name)
            ahead.extend(edges.get(name, ()))
    return seen
