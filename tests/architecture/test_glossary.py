"""The glossary: each word has one meaning and one area; the concepts page teaches twelve."""

from __future__ import annotations

import re

import pytest

from tests.architecture.page import ROOT

GLOSSARY = (ROOT / "docs" / "glossary.md").read_text("utf-8")
CONCEPTS = (ROOT / "docs" / "concepts.md").read_text("utf-8")
SECOND_WORDS = {
    r"dead[- ]letter queues?|DLQ": "dead letters",
    r"cron ?jobs?": "schedule",
    r"job types?|job classes": "task",
    r"task runs?|executions?": "attempt",
    r"consumers?": "worker, relay or router",
    r"producers?": "whoever enqueues or publishes",
    r"visibility timeouts?": "lease",
    r"tombstones?": "ended job",
}
"""Words of other libraries for what has a word here, and that word."""
SHARED, STATES, FIRST = "Words that two areas share", "The states of a job", "Twelve words"
TWO_SENSES = re.compile(r"(?:^|[.;:] )of (?:an? |the )?[a-z]+(?: [a-z]+)?: ", re.IGNORECASE)
"""A row that says the meaning anew for another thing: `of jobs: …; of routers: …`."""


def _sections(page: str) -> dict[str, str]:
    _, *parts = re.split(r"^## (.+)\n", page, flags=re.MULTILINE)
    return dict(zip(parts[::2], parts[1::2], strict=True))


def _words(section: str) -> dict[str, str]:
    return dict(re.findall(r"^\| \*\*(.+?)\*\* \| (.+) \|$", section, flags=re.MULTILINE))


def _pairs(section: str) -> dict[str, str]:
    rows = re.findall(r"^\| ([a-z ]+) \| ([a-z ]+) \|$", section, flags=re.MULTILINE)
    return {one: other for one, other in rows if one != "word"}


SECTIONS = _sections(GLOSSARY)
AREAS = {name: _words(text) for name, text in SECTIONS.items() if name not in {SHARED, STATES}}
AREA_OF = {word: area for area, words in AREAS.items() for word in words}
PAIRS = _pairs(SECTIONS[SHARED])


def test_each_word_stands_in_one_area() -> None:
    listed = [word for words in AREAS.values() for word in words]
    assert len(listed) > 90
    assert [word for word in listed if listed.count(word) > 1] == []
    assert all(AREAS.values())


def test_each_word_has_one_meaning() -> None:
    said = {word: text for words in AREAS.values() for word, text in words.items()}
    assert {word: text for word, text in said.items() if TWO_SENSES.search(text)} == {}


@pytest.mark.parametrize(
    "text",
    [
        "of jobs: holds some until a condition holds. Of routers: a switch in the store",
        "to give a job back unfinished; of a gate: to let its jobs go",
    ],
)
def test_a_second_meaning_is_seen(text: str) -> None:
    assert TWO_SENSES.search(text)


def test_nine_words_gave_their_second_meaning_to_a_word_of_its_own() -> None:
    assert len(PAIRS) == 9
    said = {word: text for words in AREAS.values() for word, text in words.items()}
    assert [one for pair in PAIRS.items() for one in pair if one not in said] == []
    assert len({*PAIRS, *PAIRS.values()}) == 18


def test_the_concepts_page_teaches_the_first_twelve() -> None:
    taught = _words(_sections(CONCEPTS)[FIRST])
    assert list(taught) == list(AREAS[FIRST])
    assert len(taught) == 12
    assert CONCEPTS.index(f"## {FIRST}") < CONCEPTS.index("## One rhythm")


def test_words_in_italics_are_in_the_glossary() -> None:
    plain = {word.lower() for word in AREA_OF}
    own = {"wallet", "debt", "call", "item", "value", "accepted", "mature", "dies", "fails"}
    named = {
        name.lower()
        for words in AREAS.values()
        for text in words.values()
        for name in re.findall(r"(?<!\*)\*([A-Za-z ]+)\*(?!\*)", text)
    }
    forms = {"held", "fires", "redriven", "resolved", "discard", "debit", "timeout", "streams"}
    assert sorted(named - plain - own - forms) == []


def second_words(text: str) -> list[str]:
    """Words of other libraries in a text, for what has a word here. Code is passed over."""
    plain = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    plain = re.sub(r"`[^`\n]*`", "", plain)
    found = (re.search(rf"\b(?:{words})\b", plain, re.IGNORECASE) for words in SECOND_WORDS)
    return [match[0] for match in found if match is not None]


def test_what_people_read_first_has_one_word_for_one_thing() -> None:
    pages = [ROOT / "README.md", *ROOT.glob("docs/*.md"), *ROOT.glob("docs/guides/*.md")]
    quoting = {"cases.md", "comparison.md", "edge-cases.md", "seeds.md"}
    found = {
        page.name: words
        for page in pages
        if page.name not in quoting and (words := second_words(page.read_text("utf-8")))
    }
    known = {"settlement-runs.md": ["CronJob"], "short-lived-workers.md": ["CronJob"]}
    assert found == known, "Kubernetes' own word"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("It goes to the dead-letter queue.", ["dead-letter queue"]),
        ("A consumer takes it; `consumer=` is code.", ["consumer"]),
        ("A worker takes it. ```visibility timeout```", []),
    ],
)
def test_a_second_word_is_seen(text: str, found: list[str]) -> None:
    assert second_words(text) == found
