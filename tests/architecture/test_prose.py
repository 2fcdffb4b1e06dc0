"""Docstrings begin with the thing that they describe, and prose uses no phrase that is banned."""

from __future__ import annotations

import ast
import re
import tokenize
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from tests.architecture import sources

CLAUSES = frozenset(
    {
        *("what", "whether", "who", "whom", "whose", "how", "when", "where", "which", "why"),
        *("those", "that", "these", "as"),
    }
)
"""First words of a docstring that leave the reader to find the noun."""
CEILING, EVERYWHERE = 1, 60
"""Docstrings of the package that may begin so, and of all with tests and tools. Lower them."""

BANNED = {
    "X is no Y": (
        r"(?<!here )(?<!here\n  )\b(?:is|are|was|were) no (?!(?:longer|more|later|one)\b)[a-z`*]",
        "X is not a Y",
    ),
    "to who": (
        r"\b(?:to|by|for) who (?!or )",
        "to whoever, or name the caller, the worker, the job",
    ),
    "Who does it": (
        r"(?:^|(?<=\. )|(?<=\.\n))\s*Who (?!is|may|has|can|knows)[a-z]+s\b(?![^.]*\?)",
        "Whoever, or name the caller, the worker, the job",
    ),
    "told of": (r"\btold of\b", "told about, or reported, notified, answered"),
    "by now": (r"\bby now\b", "already, or nothing at all"),
    "in vain": (r"\bin vain\b", "say what did not happen"),
    "such that": (r"\bsuch that\b", "so that"),
    ", else": (r"[;,]\s+else\b(?! by\b)", "otherwise, or"),
    "would else": (r"\b(?:would|could|might|which|it|they) else\b", "otherwise"),
    "he, his, him": (r"\b(?:he|his|him|He|His)\b", "they, their, its"),
}
"""Phrases that a reader stumbles over, each with its pattern and the plain way."""

_INTERNAL = ("acceptance-", "cases.md", "edge-cases.md", "CHANGELOG.md")
"""Pages that quote other documents, or what was said then."""


def clauses(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """The docstrings of modules, classes, functions and attributes that begin with a clause."""
    for node in nodes:
        body = getattr(node, "body", None)
        for statement in body if isinstance(body, list) else ():
            match statement:
                case ast.Expr(value=ast.Constant(value=str(text))):
                    first = re.match(r"\W*(\w+)", text)
                    if first is not None and first[1].lower() in CLAUSES:
                        yield text


_FENCED = re.compile(r"^ *```.*?^ *```", re.DOTALL | re.MULTILINE)


def banned(text: str) -> list[str]:
    """The names of banned phrases in a text. What is quoted as code is passed over."""
    plain = re.sub(r"`[^`\n]*`", "`code`", text)
    return [name for name, (pattern, _) in BANNED.items() if re.search(pattern, plain)]


def _prose_of(source: sources.Source) -> Iterator[str]:
    """The docstrings, error texts and comments of a module."""
    for node in source.nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield node.value
    with source.path.open("rb") as file:
        for token in tokenize.tokenize(file.readline):
            if token.type == tokenize.COMMENT:
                yield token.string.removeprefix("# ")


def _pages() -> list[Path]:
    found = [*sources.ROOT.glob("*.md"), *sources.ROOT.glob("docs/**/*.md")]
    return sorted(
        page
        for page in found
        if not page.name.endswith(_INTERNAL[1:]) and _INTERNAL[0] not in page.name
    )


def _told(place: str, text: str, name: str) -> str:
    return f"{place}: {name!r} (write {BANNED[name][1]!r}): {' '.join(text.split())[:160]}"


def test_no_banned_phrase_is_in_the_source() -> None:
    found = [
        _told(source.name, text, name)
        for source in sources.package()
        for text in _prose_of(source)
        for name in banned(text)
    ]
    assert found == []


def test_no_banned_phrase_is_in_the_statements() -> None:
    found = []
    for path in sorted((sources.PACKAGE / "store").glob("*/*.sql")):
        comments = [line[3:] for line in path.read_text("utf-8").splitlines() if line[:3] == "-- "]
        text = "\n".join(comments)
        found += [_told(path.name, text, name) for name in banned(text)]
    assert found == []


def test_no_banned_phrase_is_in_the_pages() -> None:
    found = []
    for page in _pages():
        prose = re.sub(
            r"^ *```.*?^ *```", "", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE
        )
        for text in prose.split("\n\n"):
            found += [_told(page.name, text, name) for name in banned(text)]
    assert found == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("What is no id cannot be.", ["X is no Y"]),
        ("There is no gate of that name, and no longer one.", []),
        ("It is given again to who repeats it.", ["to who"]),
        ("Who asks twice gets the same.", ["Who does it"]),
        ("The page says who waits. Who is trusted with what?", []),
        ("The loop is told of it, and it is gone by now.", ["told of", "by now"]),
        ("Its own way, else the default; `a, else b` is code.", [", else"]),
        ("A user and his account.", ["he, his, him"]),
        ("It would else wait, which else is late.", ["would else"]),
        ("Somebody looked in vain, such that it waits.", ["in vain", "such that"]),
    ],
)
def test_a_banned_phrase_is_seen(text: str, found: list[str]) -> None:
    assert banned(text) == found


def test_docstrings_begin_with_what_they_describe() -> None:
    ours = [text for source in sources.package() for text in clauses(source.nodes)]
    assert len(ours) <= CEILING, f"begin with the noun: {ours}"
    every = [text for source in sources.project() for text in clauses(source.nodes)]
    told = f"{len(every)} docstrings begin with a clause; begin with the noun: {every[:3]}"
    assert len(every) <= EVERYWHERE, told


@pytest.mark.parametrize(
    ("text", "counted"),
    [
        ('"""Whether it runs."""', 1),
        ('class A:\n    """What it does."""\n    x: int = 1\n    """How many."""', 2),
        ('def f():\n    """The number of rows."""\n    return "who"', 0),
        ('"""Asks the store."""', 0),
    ],
)
def test_the_count_sees_each_kind_of_docstring(text: str, counted: int) -> None:
    assert len(list(clauses(ast.walk(ast.parse(text))))) == counted
