"""Faults: texts of one cause are one text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offpath.model.fault import LONGEST, fault_text


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("order 17 not found", "order 99123 not found"),
        ("no user 'ann'", 'no user "bob\'s"'),
        ("https://a.example/x?y=1 said no", "https://b.example/ said no"),
        ("ann@example.org bounced", "bob.c@mail.example bounced"),
        ("cannot open /srv/a/1.png", "cannot open /srv/b/2.png"),
        ("job 0198c0de-0000-7000-8000-00000000beef", "job 0198c0de-0000-7000-8000-00000000cafe"),
        ("<Thing at 0x7f12ab>", "<Thing at 0x7f99ff>"),
        ("smtp1.example.org closed", "smtp23.example.org closed"),
        ("first line\nsecond", "first line\nanother"),
    ],
)
def test_what_differs_by_its_data_is_one_fault(one: str, other: str) -> None:
    assert fault_text(one) == fault_text(other)


def test_what_differs_by_its_words_is_two() -> None:
    assert fault_text("connection refused") != fault_text("connection reset")


def test_a_secret_is_hidden_before() -> None:
    assert "hunter" not in fault_text("login failed: password=hunter")


@given(st.text(max_size=5_000))
def test_any_text_becomes_one_short_line(text: str) -> None:
    told = fault_text(text)
    assert len(told) <= LONGEST
    assert len(told.splitlines()) <= 1
