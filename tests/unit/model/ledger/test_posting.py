"""Postings: canonical metadata, hashes that are pinned, and what is found to be altered."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from offpath.model.ledger.book import Book, Loaded
from offpath.model.ledger.decision import batch_wants, decide_all
from offpath.model.ledger.faults import ChainBroken, MalformedOperation
from offpath.model.ledger.plain import operation_of, posting_op
from offpath.model.ledger.posting import (
    GENESIS,
    MOST_ACCOUNTS,
    SAFE,
    Entry,
    LinkRecord,
    NewPosting,
    PostingRecord,
    balanced,
    canonical,
    hash_of,
    link_hash,
    verified,
)

TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"))
FIRST = "7def6af40b6aeb12ce9449d4c70ccd959c12defcbac4685fb2f5a2c33fa1ea1d"


def posted(*entries: Entry, meta: Mapping[str, Any]) -> PostingRecord:
    """The record of a posting into empty accounts."""
    operation = posting_op(NewPosting(id="txn_1", entries=entries, meta=meta))
    book = Book(Loaded(wanted=batch_wants([operation], 5), now=5))
    (decided,) = decide_all(book, [operation])
    assert decided.error is None
    return book.changes().postings[0]


@pytest.fixture
def record() -> PostingRecord:
    meta = {"kind": "topUp", "source": "card"}
    return posted(Entry("platform:stored_value", 500), Entry("usr_a:spendable", -500), meta=meta)


class TestCanonical:
    @pytest.mark.parametrize(
        ("meta", "written"),
        [
            ({}, "{}"),
            ({"b": 1, "a": [True, None, False]}, '{"a":[true,null,false],"b":1}'),
            ({"n": {"z": {}, "a": []}}, '{"n":{"a":[],"z":{}}}'),
            ({"é": "☃", "z": "ü"}, '{"z":"ü","é":"☃"}'),
            ({"t": (1, -2)}, '{"t":[1,-2]}'),
            ({"q": '"\\/\n\t'}, '{"q":"\\"\\\\/\\n\\t"}'),
            ({"n": SAFE, "m": -SAFE}, f'{{"m":-{SAFE},"n":{SAFE}}}'),
        ],
    )
    def test_keys_are_sorted_at_every_level_without_blanks(
        self, meta: dict[str, Any], written: str
    ) -> None:
        assert canonical(meta) == written

    def test_other_mappings_are_written_alike(self) -> None:
        inner = MappingProxyType({"b": 1, "a": 2})
        assert canonical(MappingProxyType({"m": inner})) == '{"m":{"a":2,"b":1}}'

    @pytest.mark.parametrize(
        "meta",
        [
            {"a": 1.0},
            {"a": float("nan")},
            {"a": SAFE + 1},
            {"a": -SAFE - 1},
            {"a": b"x"},
            {"a": {1, 2}},
            {"a": object()},
            {1: "a"},
            {"a": {None: 1}},
            {"a": "\ud800"},
            {"\udfff": 1},
            {"a": "x\0y"},
            {"a": "x" * 70_000},
            [1],
            "text",
            None,
        ],
    )
    def test_what_is_not_exact_everywhere_is_refused(self, meta: Any) -> None:
        with pytest.raises(MalformedOperation):
            canonical(meta)

    def test_so_is_what_is_nested_too_deep(self) -> None:
        deep: dict[str, Any] = {}
        for _ in range(40):
            deep = {"a": [deep]}
        with pytest.raises(MalformedOperation, match="deeper"):
            canonical(deep)

    @given(
        st.recursive(
            st.none() | st.booleans() | st.integers(-SAFE, SAFE) | TEXTS,
            lambda inner: (
                st.lists(inner, max_size=4)
                | st.dictionaries(
                    TEXTS,
                    inner,
                    max_size=4,
                )
            ),
            max_leaves=12,
        )
    )
    def test_it_means_what_was_given_and_is_its_own_form(self, value: Any) -> None:
        written = canonical({"v": value})
        read = msgspec.json.decode(written)
        assert read == {"v": value}
        assert canonical(read) == written


class TestHashes:
    def test_they_are_made_of_four_frames_with_their_lengths(self) -> None:
        frames = [bytes(32), b"txn_1", b"CREDIT:-5.00", b'{"kind":"topUp","source":"card"}']
        framed = b"".join(len(one).to_bytes(4, "big") + one for one in frames)
        meta = frames[3].decode()
        digest = hashlib.sha256(framed).hexdigest()
        assert link_hash(GENESIS, "txn_1", ["CREDIT:-5.00"], meta) == digest

    def test_the_vector_holds(self, record: PostingRecord) -> None:
        assert {link.account: link.hash for link in record.links}["usr_a:spendable"] == FIRST

    def test_entries_are_sorted_as_texts_and_joined_by_nul(self) -> None:
        one = link_hash(GENESIS, "p", ["CREDIT:2.00", "CREDIT:10.00"], "{}")
        assert one == link_hash(GENESIS, "p", ["CREDIT:10.00", "CREDIT:2.00"], "{}")
        assert one != link_hash(GENESIS, "p", ["CREDIT:12.00"], "{}")

    def test_no_part_can_take_from_its_neighbour(self) -> None:
        assert link_hash(GENESIS, "ab", ["c"], "{}") != link_hash(GENESIS, "a", ["bc"], "{}")
        assert link_hash(GENESIS, "a", ["b", "c"], "{}") != link_hash(GENESIS, "a", ["b\0"], "c{}")


class TestVerified:
    def test_an_honest_one_passes(self, record: PostingRecord) -> None:
        assert verified(record) == record
        assert all(hash_of(link, record.meta) == link.hash for link in record.links)

    @pytest.mark.parametrize(
        "alter",
        [
            {"amount": -501},
            {"entries": (-400, -100)},
            {"entries": ()},
            {"prev": "ab" * 32},
            {"hash": "ab" * 32},
            {"posting": "txn_2"},
            {"amount": -400, "entries": (-400,)},
        ],
    )
    def test_an_altered_link_does_not(self, record: PostingRecord, alter: dict[str, Any]) -> None:
        links = (record.links[0], replace(record.links[1], **alter))
        with pytest.raises(ChainBroken, match="txn_1"):
            verified(replace(record, links=links))

    @pytest.mark.parametrize(
        "alter", [{"meta": '{"kind":"topUp"}'}, {"id": "txn_9"}, {"links": ()}]
    )
    def test_an_altered_posting_does_not(
        self, record: PostingRecord, alter: dict[str, Any]
    ) -> None:
        with pytest.raises(ChainBroken):
            verified(replace(record, **alter))

    def test_one_that_misses_a_link_does_not(self, record: PostingRecord) -> None:
        with pytest.raises(ChainBroken, match="balance"):
            verified(replace(record, links=record.links[:1]))

    def test_one_that_was_hashed_anew_but_does_not_balance_does_not(
        self, record: PostingRecord
    ) -> None:
        one = record.links[1]
        forged: LinkRecord = replace(one, amount=-400, entries=(-400,))
        forged = replace(forged, hash=hash_of(forged, record.meta))
        with pytest.raises(ChainBroken, match="balance"):
            verified(replace(record, links=(record.links[0], forged)))


def test_entries_come_back_by_account(record: PostingRecord) -> None:
    assert record.entries == (Entry("platform:stored_value", 500), Entry("usr_a:spendable", -500))
    assert record.facts == {"kind": "topUp", "source": "card"}


def test_a_posting_with_other_content_has_another_fingerprint() -> None:
    entries = (Entry("platform:stored_value", 500), Entry("usr_a:spendable", -500))
    one = posting_op(NewPosting(id="a", entries=entries))
    same = posting_op(NewPosting(id="a", entries=entries[::-1]))
    other = posting_op(NewPosting(id="a", entries=entries, meta={"kind": "x"}))
    assert one.key == same.key == other.key
    assert one.fingerprint == same.fingerprint != other.fingerprint


def test_a_posting_touches_as_many_accounts_as_every_store_has_places_for() -> None:
    many = [Entry(f"u{at}:promo", -1) for at in range(MOST_ACCOUNTS)]
    given = [*many, Entry("platform:promo_float", MOST_ACCOUNTS)]
    with pytest.raises(MalformedOperation, match="at most 65536 accounts"):
        balanced(given)
    often = [*many[1:], Entry("u1:promo", -1), *given[-1:]]
    assert len(balanced(often)) == MOST_ACCOUNTS + 1


def test_only_postings_and_operations_are_taken() -> None:
    operation = operation_of(
        NewPosting(id="a", entries=(Entry("u:promo", 5), Entry("v:promo", -5)))
    )
    assert operation_of(operation) is operation
    with pytest.raises(MalformedOperation, match="not str"):
        operation_of("a")  # type: ignore[arg-type]
