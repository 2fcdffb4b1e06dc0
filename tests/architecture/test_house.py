"""The figures of the house are counted right."""

from __future__ import annotations

import ast
import re

import pytest

from tests.architecture.sources import ROOT
from tools import house, walk


@pytest.mark.timeout(300)  # it reads the whole package, also on a busy machine
def test_every_figure_of_this_checkout_is_found() -> None:
    figures = house.figures(ROOT)
    assert len(figures) == 17
    reached = {"docstrings without a noun first"}
    assert all(
        value and not value.startswith("0 ")
        for name, value in figures.items()
        if name not in reached
    )


def test_circles_are_found_through_any_kind_of_import() -> None:
    modules = {
        "p.a": "if TYPE_CHECKING:\n    from p import b",
        "p.b": "def f():\n    from p.a import x",
        "p.c": "import p.a",
    }
    graph = house.edges({name: ast.parse(text) for name, text in modules.items()})
    assert graph == {"p.a": {"p.b"}, "p.b": {"p.a"}, "p.c": {"p.a"}}
    assert house.circles(graph) == [["p.a", "p.b"]]


def test_columns_that_are_named_by_numbers_are_counted() -> None:
    assert house.row_accesses(ast.parse("row[3], row[-1], row[2:], row[name], other[1]")) == 3


def test_class_names_docstrings_and_exports_are_read() -> None:
    tree = ast.parse(
        '"""Top."""\n__all__ = ["a", "b"]\nclass A:\n    """One."""\ndef f(): "Two."\nclass A: ...'
    )
    assert house.repeated_classes([tree]) == ["A"]
    assert sorted(house.docstrings_of(tree)) == ["One.", "Top.", "Two."]
    assert house.exported(tree) == ["a", "b"]


def test_the_five_questions_lead_to_files_that_are_there() -> None:
    page = ROOT / "docs" / "architecture.md"
    part = page.read_text("utf-8").partition("## Where it is decided\n")[2].partition("\n## ")[0]
    rows = [row for row in part.splitlines() if "](../src/" in row]
    links = [link for row in rows for link in re.findall(r"\]\((\.\./src/[^)]+)\)", row)]
    assert (len(rows), len(links)) == (5, house.opened(page))
    assert len(links) <= 13
    assert [link for link in links if not (page.parent / link).is_file()] == []


async def test_a_walk_names_the_files_that_an_enqueue_passes() -> None:
    found = await walk.of_enqueue("memory://")
    assert found["jobs/define/task.py"] == 1
    assert found["store/seam.py"] >= 1
    assert len(found) <= 40


def test_only_comments_that_say_something_count() -> None:
    text = "x = 1  # beside\n# why\n# -- part --\ny = '# no'  # noqa: X\n"
    assert (house.why_lines(text), house.said_lines(text)) == (1, 2)
    assert house.why_lines("x = 1  # beside\n# why\n# -- part --\n# noqa\n    # because\n") == 2


def test_comments_of_sql_count_without_the_names_of_blocks() -> None:
    text = (
        "-- name: lock\n-- In one order, so that two callers cannot wait in a circle.\nselect 1\n"
    )
    assert house.sql_why_lines(text + "-- name: none\n-- nothing\n    -- a reason\n") == 2
