"""The reads of the statements of a page, as Postgres explains them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec
import psycopg

from offpath.store.postgres.migrate import PACKAGE
from offpath.store.sql import Query, catalogue

SQL: Final = catalogue(PACKAGE)
LARGE: Final = frozenset(("job", "message", "log", "ledger_posting"))
"""Tables that no page may read from one end to the other."""
_FEW: Final = 1_000


class PageReads(msgspec.Struct, frozen=True, kw_only=True):
    """The reads of one page."""

    rows: int
    """Rows that were looked at in tables and indexes."""
    buffers: int
    """Blocks of 8 KiB that were looked at, in memory or not."""
    plan_ms: float
    run_ms: float
    whole: tuple[str, ...]
    """Large tables that were read from one end to the other."""


NOTHING: Final = PageReads(rows=0, buffers=0, plan_ms=0.0, run_ms=0.0, whole=())


def reads_of(connection: psycopg.Connection[Any], queries: Iterable[Query]) -> PageReads:
    """Run these statements once more and tell what they read; what they write is rolled back."""
    plans = [_explained(connection, one) for one in queries if _reads(one)]
    nodes = [node for plan in plans for node in _nodes(plan["Plan"])]
    scans = [node for node in nodes if "Relation Name" in node]
    whole = {node["Relation Name"] for node in scans if _whole(node)}
    blocks = [plan["Plan"] for plan in plans]
    return PageReads(
        rows=round(sum(map(_touched, scans))),
        buffers=sum(one["Shared Hit Blocks"] + one["Shared Read Blocks"] for one in blocks),
        plan_ms=sum(plan["Planning Time"] for plan in plans),
        run_ms=sum(plan["Execution Time"] for plan in plans),
        whole=tuple(sorted(whole)),
    )


def touched_by_table(connection: psycopg.Connection[Any], queries: Iterable[Query]) -> Counter[str]:
    """The rows of each table that these statements look at, run once more and rolled back."""
    rows: Counter[str] = Counter()
    for query in filter(_reads, queries):
        for node in _nodes(_explained(connection, query)["Plan"]):
            if "Relation Name" in node:
                rows[node["Relation Name"]] += round(_touched(node))
    return rows


def _reads(query: Query) -> bool:
    return query.statement.pyformat.lstrip().lower().startswith(("select", "with"))


def _explained(connection: psycopg.Connection[Any], query: Query) -> dict[str, Any]:
    """The plan of a statement, as the session of one who looks runs it."""
    text = f"explain (analyze, buffers, timing off, format json) {query.statement.pyformat}"
    with connection.transaction(force_rollback=True):
        for pin in ("settle_in", "settle_in_freely"):
            connection.execute(SQL[pin].pyformat.encode())
        [(plans,)] = connection.execute(text.encode(), query.params).fetchall()
    found: dict[str, Any] = plans[0]
    return found


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", ()):
        yield from _nodes(child)


def _whole(node: dict[str, Any]) -> bool:
    """True for a large table that is read from one end to the other; one of a few rows may be."""
    large = node["Relation Name"] in LARGE and _touched(node) > _FEW
    return node["Node Type"] == "Seq Scan" and large


def _touched(node: dict[str, Any]) -> float:
    removed = node.get("Rows Removed by Filter", 0) + node.get("Rows Removed by Index Recheck", 0)
    rows: float = (node["Actual Rows"] + removed) * node["Actual Loops"]
    return rows
