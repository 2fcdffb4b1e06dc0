"""Named SQL statements, kept in ``.sql`` files beside the Python that runs them.

A file holds blocks; a block is a name, a description, and one statement::

    -- name: states
    -- The states of some jobs, unknown ids left out.
    select id, state from offpath.job where id = any (:ids)

Parameters are written ``:name`` whatever the driver and are rendered for each one when the file
is loaded. Values are always bound. The single substitution is the schema: the word ``offpath``
(``offpath.job``) becomes another, validated identifier. Comments are dropped from what is sent.

Text that several statements have in common is a part, a block of its own that they name. It is put
in when the file is loaded, so what is sent is the same as if it had been written out::

    -- part: open_lanes
    -- The lanes that may be leased from.
    lanes as materialized (…)

    -- name: ready_by_age
    with /* part: open_lanes */ select …

A block that consists of the comment ``-- nothing`` is a statement that its database does not need,
as a lock where there is one writer: it is not sent.

A name that does not exist, a duplicate, a part that nobody uses, and a parameter that is missing or
superfluous are errors, so a statement and its caller cannot drift apart unnoticed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from importlib import resources
from typing import Any, Final

from offpath.errors import InvalidArgument
from offpath.model import schema_url

DEFAULT_SCHEMA: Final = schema_url.DEFAULT_SCHEMA

Row = Sequence[Any]
"""One row of an answer; values are text, numbers and None, so every driver returns the same."""

_BLOCK = re.compile(r"^--[ \t]*(?P<kind>name|part):[ \t]*(?P<name>\S*)[ \t]*$", re.MULTILINE)
_USE = re.compile(r"/\* part: (?P<part>\S+) \*/")
_NAME = re.compile(r"[a-z][a-z0-9_]*")
_SCHEMA_NAME = re.compile(r"[a-z_][a-z0-9_]{0,39}")
_SCHEMA_WORD = re.compile(r"\boffpath\b")
_PREFIX_WORD = re.compile(r"(?<![A-Za-z0-9])offpath_")  # also within sqlite_autoindex_offpath_…
_NOTHING = re.compile(r"^-- nothing$", re.MULTILINE)
_BLANKS = re.compile(r"[ \t]*\n\s*")

# Order matters: what may hide a colon is recognised before a parameter is looked for.
_TOKEN = re.compile(
    r"""
      (?P<comment>--[^\n]*|/\*(?:[^*]|\*(?!/))*\*/)
    | (?P<quoted>
          \b[eE]'(?:[^'\\]|\\.|'')*'
        | '(?:[^']|'')*'
        | "(?:[^"]|"")*"
        | \$(?P<tag>[A-Za-z_]\w*|)\$.*?\$(?P=tag)\$
      )
    | (?P<cast>::)
    | :(?P<parameter>[A-Za-z_]\w*)
    """,
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Statement:
    """One named statement, rendered for every driver. Calling it binds parameters."""

    name: str
    description: str
    parameters: tuple[str, ...]
    """Names in the order of their first appearance: ``$1`` is the first of them."""
    occurrences: tuple[str, ...]
    """Names as they appear, repeats included: one for each ``?``."""
    named: str
    """``:name``: sqlite3."""
    pyformat: str
    """``%(name)s``: psycopg, psycopg2, Django."""
    dollar: str
    """``$1``: asyncpg."""
    wire: bytes
    """The same as it is sent: one object, by whose place prepared statements are found."""
    qmark: str
    """``?``: positional."""
    nothing: bool
    """This database needs no such statement, so it is not sent; whatever it is given is right."""
    _expected: frozenset[str] = field(repr=False)

    def __call__(self, **params: Any) -> Query:  # noqa: ANN401 - values are the driver's business
        """Bind ``params``; raises ``TypeError`` unless their names are exactly the statement's."""
        if params.keys() != self._expected and not self.nothing:
            raise TypeError(self._mismatch(params))
        return Query(self, params)

    def _mismatch(self, params: Mapping[str, Any]) -> str:
        missing = sorted(self._expected - params.keys())
        unknown = sorted(params.keys() - self._expected)
        return f"statement {self.name!r}: missing parameters {missing}, unknown {unknown}"


@dataclass(frozen=True, slots=True)
class Query:
    """A statement with its parameters, for any driver."""

    statement: Statement
    params: Mapping[str, Any]

    @property
    def name(self) -> str:
        """The statement's name."""
        return self.statement.name

    def for_dollar(self) -> tuple[Any, ...]:
        """The arguments for :attr:`Statement.dollar`."""
        return tuple(self.params[name] for name in self.statement.parameters)

    def for_qmark(self) -> tuple[Any, ...]:
        """The arguments for :attr:`Statement.qmark`."""
        return tuple(self.params[name] for name in self.statement.occurrences)


class Catalogue(Mapping[str, Statement]):
    """The statements of one package by name."""

    def __init__(self, package: str, statements: Mapping[str, Statement]) -> None:
        self._package = package
        self._statements = dict(statements)

    def __getitem__(self, name: str) -> Statement:
        try:
            return self._statements[name]
        except KeyError:
            raise LookupError(f"no statement named {name!r} in {self._package}") from None

    def __contains__(self, name: object) -> bool:
        return name in self._statements

    def __iter__(self) -> Iterator[str]:
        return iter(self._statements)

    def __len__(self) -> int:
        return len(self._statements)


@lru_cache(maxsize=32)
def catalogue(package: str, *, schema: str = DEFAULT_SCHEMA) -> Catalogue:
    """Load every ``.sql`` file that lies directly in ``package``; loaded once per schema.

    Raises ``InvalidArgument`` for a schema name that is not a plain identifier, and ``ValueError``
    for a file that is not made of well-formed blocks.
    """
    texts = {
        source.name: source.read_text("utf-8")
        for source in sorted(resources.files(package).iterdir(), key=lambda entry: entry.name)
        if source.name.endswith(".sql")
    }
    parts = parts_of(texts)
    found: dict[str, Statement] = {}
    for name, text in texts.items():
        for statement in parse(text, schema=schema, origin=name, parts=parts):
            if statement.name in found:
                raise ValueError(f"{name}: a second statement is named {statement.name!r}")
            found[statement.name] = statement
    return Catalogue(package, found)


def parts_of(texts: Mapping[str, str]) -> dict[str, str]:
    """The parts in the files of one package, by their names.

    Raises ``ValueError`` for two of one name, and for one that no statement uses.
    """
    parts: dict[str, str] = {}
    for origin, text in texts.items():
        for kind, name, block in _blocks(text, origin):
            if kind == "part" and (name in parts or not _NAME.fullmatch(name)):
                raise ValueError(f"{origin}: {name!r} is taken, or cannot be a part's name")
            if kind == "part":
                parts[name] = block.strip()
    used = {use["part"] for text in texts.values() for use in _USE.finditer(text)}
    if unused := parts.keys() - used:
        raise ValueError(f"no statement uses the parts {sorted(unused)}: remove them")
    return parts


def parse(
    text: str,
    *,
    schema: str = DEFAULT_SCHEMA,
    origin: str = "sql",
    parts: Mapping[str, str] | None = None,
) -> list[Statement]:
    """The statements in ``text``; ``origin`` names it in errors.

    ``parts`` are those of its package; without them its own.
    """
    known = parts_of({origin: text}) if parts is None else parts
    return [
        _statement(name, in_schema(_whole(block, known, origin), schema), origin)
        for kind, name, block in _blocks(text, origin)
        if kind == "name"
    ]


def _blocks(text: str, origin: str) -> list[tuple[str, str, str]]:
    """The kind, name and text of each block."""
    heads = list(_BLOCK.finditer(text))
    preamble = text[: heads[0].start()] if heads else text
    if _sql_of(preamble):
        raise ValueError(f"{origin}: a statement stands before the first '-- name:' line")
    ends = [head.start() for head in heads[1:]] + [len(text)]
    return [
        (head["kind"], head["name"], text[head.end() : end])
        for head, end in zip(heads, ends, strict=True)
    ]


def _whole(block: str, parts: Mapping[str, str], origin: str) -> str:
    """A block with the parts that it names put in."""

    def part(use: re.Match[str]) -> str:
        if use["part"] not in parts:
            raise ValueError(f"{origin}: there is no part named {use['part']!r}")
        return _whole(parts[use["part"]], parts, origin)

    return _USE.sub(part, block)


@lru_cache(maxsize=256)
def statement(name: str, sql: str) -> Statement:
    """A statement that no file can hold, since it names what the user named: the one such is a
    page of a table of the user's own.
    """
    return _statement(name, sql, "a table of the user's own")


@lru_cache(maxsize=256)
def renamed(statement: Statement, prefix: str) -> str:
    """The text of a statement with a prefix before the names of its parameters."""
    marks = {name: f":{prefix}{name}" for name in statement.parameters}
    return _rendered(statement.named, marks)


def in_schema(text: str, schema: str) -> str:
    """``text`` with the schema's name put in. The name is validated first."""
    checked = schema_name(schema)
    if checked == DEFAULT_SCHEMA:
        return text
    # Quoted, since a plain identifier may be a reserved word.
    return _SCHEMA_WORD.sub(f'"{checked}"', text)


def with_prefix(text: str, schema: str) -> str:
    """``text`` of a database without schemas: the names of tables begin with the schema's."""
    if schema == DEFAULT_SCHEMA:
        return text
    return _PREFIX_WORD.sub(f"{schema_name(schema)}_", text)


# Wide enough for some hundred statements in each of several schemas.
@lru_cache(maxsize=4096)
def prefixed(statement: Statement, schema: str) -> Statement:
    """A statement about the tables of a schema, in a database without schemas."""
    if schema == DEFAULT_SCHEMA:
        return statement
    return replace(
        statement,
        named=with_prefix(statement.named, schema),
        pyformat=with_prefix(statement.pyformat, schema),
        dollar=(dollar := with_prefix(statement.dollar, schema)),
        wire=dollar.encode(),
        qmark=with_prefix(statement.qmark, schema),
    )


def schema_name(schema: str) -> str:
    """``schema`` if it is a plain lower-case identifier; raises ``InvalidArgument`` if not.

    At most 40 characters, so that names derived from it stay under the server's limit of 63.
    """
    if not _SCHEMA_NAME.fullmatch(schema):
        raise InvalidArgument(
            f"{schema!r} cannot be a schema name: use a lower-case letter or underscore, then "
            "letters, digits or underscores, at most 40 in all"
        )
    return schema


def _statement(name: str, block: str, origin: str) -> Statement:
    if not _NAME.fullmatch(name):
        raise ValueError(f"{origin}: {name!r} cannot be a statement's name")
    sql = _sql_of(block)
    nothing = not sql and _NOTHING.search(block) is not None
    if not sql and not nothing:
        raise ValueError(f"{origin}: the statement {name!r} is empty")
    occurrences = tuple(token["parameter"] for token in _TOKEN.finditer(sql) if token["parameter"])
    parameters = tuple(dict.fromkeys(occurrences))
    numbers = {parameter: f"${at}" for at, parameter in enumerate(parameters, 1)}
    dollar = _rendered(sql, numbers)
    return Statement(
        name=name,
        description=_description(block),
        parameters=parameters,
        occurrences=occurrences,
        named=sql,
        pyformat=_rendered(sql, {p: f"%({p})s" for p in parameters}, percent="%%"),
        dollar=dollar,
        wire=dollar.encode(),
        qmark=_rendered(sql, dict.fromkeys(parameters, "?")),
        nothing=nothing,
        _expected=frozenset(parameters),
    )


def _description(block: str) -> str:
    lines = []
    for line in block.strip().splitlines():
        if not line.startswith("--"):
            break
        lines.append(line.removeprefix("--").strip())
    return "\n".join(lines)


def _sql_of(block: str) -> str:
    """The statement alone: no comments, no final semicolon, no indentation outside quotes."""
    pieces = []
    end = 0
    for token in _TOKEN.finditer(block):
        pieces.append(_BLANKS.sub("\n", block[end : token.start()]))
        # A blank in its place, or the words beside a comment would become one.
        pieces.append(" " if token["comment"] else token[0])
        end = token.end()
    pieces.append(_BLANKS.sub("\n", block[end:]))
    return "".join(pieces).strip().removesuffix(";").rstrip()


def _rendered(sql: str, marks: Mapping[str, str], *, percent: str = "%") -> str:
    """``sql`` with each parameter replaced by its mark.

    Drivers that use ``%`` for parameters look for it in quoted text as well, so it is doubled
    everywhere.
    """
    pieces = []
    end = 0
    for token in _TOKEN.finditer(sql):
        pieces.append(sql[end : token.start()].replace("%", percent))
        parameter = token["parameter"]
        pieces.append(marks[parameter] if parameter else token[0].replace("%", percent))
        end = token.end()
    pieces.append(sql[end:].replace("%", percent))
    return "".join(pieces)
