"""The loader of named SQL: parameters are found exactly, names cannot drift."""

from __future__ import annotations

import pytest

from offpath.errors import InvalidArgument
from offpath.store.sql import Statement, in_schema, parse, parts_of, schema_name


def one(text: str) -> Statement:
    (statement,) = parse(f"-- name: it\n{text}")
    return statement


def test_a_block_has_name_description_and_sql() -> None:
    first, second = parse(
        "-- name: first\n-- What it does,\n-- and when.\nselect :a; -- gone\n\n"
        "-- name: second\nselect 2"
    )
    assert (first.name, first.description, first.named) == (
        "first",
        "What it does,\nand when.",
        "select :a",
    )
    assert (second.name, second.description, second.named) == ("second", "", "select 2")


def test_parameters_are_rendered_for_every_driver() -> None:
    it = one("select :a, :b::text, :a where x % 2 = :b")
    assert it.parameters == ("a", "b")
    assert it.occurrences == ("a", "b", "a", "b")
    assert it.named == "select :a, :b::text, :a where x % 2 = :b"
    assert it.pyformat == "select %(a)s, %(b)s::text, %(a)s where x %% 2 = %(b)s"
    assert it.dollar == "select $1, $2::text, $1 where x % 2 = $2"
    assert it.qmark == "select ?, ?::text, ? where x % 2 = ?"


@pytest.mark.parametrize(
    "text",
    [
        "select 'a :b '' :c'",
        "select e'it\\'s :b'",
        'select 1 as ":b"',
        "select $$ :b $$",
        "select $tag$ :b $$ :c $tag$",
        "select x::b",
        "select f(x := 1)",
        "select 1 -- :b\n",
        "select 1 /* :b * / :c */",
    ],
)
def test_colons_elsewhere_are_not_parameters(text: str) -> None:
    assert one(text).parameters == ()


def test_a_percent_sign_in_quotes_is_doubled_only_where_the_driver_asks() -> None:
    it = one("select '50%' like :a")
    assert it.pyformat == "select '50%%' like %(a)s"
    assert it.dollar == "select '50%' like $1"


def test_binding_gives_positional_arguments_in_order() -> None:
    query = one("select :b, :a, :b")(a=1, b=2)
    assert query.name == "it"
    assert query.for_dollar() == (2, 1)
    assert query.for_qmark() == (2, 1, 2)


@pytest.mark.parametrize("params", [{}, {"a": 1, "b": 2}, {"b": 1}])
def test_binding_refuses_missing_and_unknown_parameters(params: dict[str, int]) -> None:
    with pytest.raises(TypeError, match="statement 'it'"):
        one("select :a")(**params)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("select 1\n-- name: a\nselect 2", "before the first"),
        ("-- name: a b\nselect 2", "before the first"),
        ("-- name: A\nselect 2", "cannot be a statement's name"),
        ("-- name: a\n-- only words\n", "is empty"),
    ],
)
def test_malformed_files_are_refused(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        parse(text, origin="x.sql")


PARTS = {
    "parts.sql": "-- part: due\n-- Due at :now.\nat <= /* part: time */\n\n-- part: time\n:now\n",
    "x.sql": "-- name: a\nselect 1 where /* part: due */ or b\n--name: c\nselect /* part: due */\n",
}


def test_a_part_is_put_in_where_it_is_named() -> None:
    first, second = parse(PARTS["x.sql"], parts=parts_of(PARTS))
    assert first.named.split() == ["select", "1", "where", "at", "<=", ":now", "or", "b"]
    assert first.parameters == ("now",)
    assert second.named.split() == ["select", "at", "<=", ":now"]


@pytest.mark.parametrize(
    ("texts", "says"),
    [
        ({"x.sql": PARTS["x.sql"]}, "no part named 'due'"),
        ({"parts.sql": PARTS["parts.sql"]}, "no statement uses the parts"),
        (PARTS | {"y.sql": "-- part: due\n1\n"}, "'due' is taken"),
        (PARTS | {"y.sql": "-- part: Due\n1\n"}, "cannot be a part's name"),
    ],
)
def test_parts_that_cannot_be_meant_are_refused(texts: dict[str, str], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        parse(PARTS["x.sql"], origin="x.sql", parts=parts_of(texts))


def test_a_statement_that_a_database_does_not_need_takes_whatever_it_is_given() -> None:
    (lock,) = parse("-- name: lock\n-- nothing\n")
    assert lock.nothing
    assert lock(ids="[]", now=1).params == {"ids": "[]", "now": 1}
    (read,) = parse("-- name: read\nselect :id -- nothing\n")
    assert not read.nothing


def test_the_schema_is_the_only_substitution() -> None:
    text = "select 'offpath.job'::regclass, offpath.f() from offpath.job, offpath_job"
    assert in_schema(text, "offpath") == text
    assert in_schema(text, "tenant_1") == (
        'select \'"tenant_1".job\'::regclass, "tenant_1".f() from "tenant_1".job, offpath_job'
    )


@pytest.mark.parametrize("name", ["", "A", "1a", 'a"b', "a.b", "a;drop", "a" * 41, "é"])
def test_other_schema_names_are_refused(name: str) -> None:
    with pytest.raises(InvalidArgument, match="cannot be a schema name"):
        schema_name(name)
