"""Chains that are walked posting by posting."""

from __future__ import annotations

from msgspec.structs import replace

from offpath.economy.ledger.posting_walks import PostingWalks
from offpath.model.ledger.posting import GENESIS, LinkRecord, PostingRecord, hash_of

ANN = "ann:spendable"
NOBODY = "nobody"


def posting(*accounts: str, number: int = 1) -> PostingRecord:
    """A posting of nothing to some accounts."""
    return PostingRecord(
        id="p-1", meta="{}", at=0, links=tuple(link(each, number) for each in accounts)
    )


def link(account: str, number: int) -> LinkRecord:
    """A link of nothing, which hashes if its account has a chart."""
    bare = LinkRecord(
        account=account,
        number=number,
        posting="p-1",
        amount=0,
        entries=(0,),
        balance=0,
        raised=0,
        prev=GENESIS,
        hash="",
        source=None,
        at=0,
    )
    return bare if account.startswith(NOBODY) else replace(bare, hash=hash_of(bare, "{}"))


def test_an_account_that_no_chart_knows_is_a_finding_and_the_walk_goes_on() -> None:
    walks = PostingWalks(believed=True)
    walks.take(posting(NOBODY, ANN))
    assert [(one.account, one.reason) for one in walks.breaks] == [(NOBODY, "unknown-account")]
    assert len(walks.wrong) == 1
    assert (walks.walks[ANN].number, walks.postings) == (1, 1)


def test_only_one_who_believes_goes_on_from_a_later_link() -> None:
    breaks = []
    for believed in (True, False):
        walks = PostingWalks(believed=believed)
        walks.take(posting(ANN, number=3))
        breaks.append([one.reason for one in walks.breaks])
    assert breaks == [[], ["broken-link"]]


def test_of_many_breaks_a_hundred_are_told_and_of_an_account_the_first_one() -> None:
    walks = PostingWalks(believed=True)
    for number in range(200):
        walks.take(posting(f"{NOBODY}-{number}"))
    assert (len(walks.breaks), len(walks.wrong), len(walks.broken)) == (100, 100, 200)
