"""The rows that statements about a ledger answer. Its times are milliseconds since 1970."""

from __future__ import annotations

from typing import NamedTuple


class AccountRow(NamedTuple):
    """An account, and what its row says of it besides: all that the chart of accounts knows too."""

    id: str
    balance: int
    raised: int
    head: str
    number: int
    kind: str
    currency: str
    guarded: int
    side: int | None


class LinkRow(NamedTuple):
    """A link with its posting's metadata. Entries are a JSON list; None: the amount is its one."""

    account: str
    number: int
    posting: str
    amount: int
    entries: str | None
    balance: int
    raised: int
    prev: str
    hash: str
    source: str | None
    at: int
    meta: str


class PostingRow(NamedTuple):
    """A posting, with one of its links; its link has no account where there is none."""

    seq: int
    posted_at: int
    account: str | None
    number: int
    posting: str
    amount: int
    entries: str | None
    balance: int
    raised: int
    prev: str
    hash: str
    source: str | None
    at: int
    meta: str | None


class DueSideRow(NamedTuple):
    """A due row beside the ledger, behind the store's time in milliseconds."""

    now: int
    kind: str
    id: str
    owner: str
    state: str
    version: int
    due_at: int
    attempts: int
    amount: int | None
    anchor: str | None
    unique_key: str | None
    created_at: int
    touched_at: int
    body: str
