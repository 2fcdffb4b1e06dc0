"""Acts of one who owns a ledger's database, each by itself."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from msgspec.structs import replace

from offpath.economy.ledger.checkpoint import seal
from offpath.economy.testing import TestSigner
from offpath.model.ledger.records import Checkpoint
from offpath.store.protocol import Store
from tests.conformance.backends import Backend
from tests.conformance.ledger_builders import (
    ANN,
    BOB,
    NOW,
    TRUST_CASH,
    USD_CLEARING,
    done,
    plain,
)
from tests.conformance.ledger_tamper import Tamper, tamper

CAS, EVE = "cas:earned", "eve:promo"
SIGNER = TestSigner()
Attack = Callable[[Tamper], Awaitable[None]]


async def sealed(store: Store, name: str, at: int = NOW, **more: Checkpoint) -> Checkpoint:
    made = await seal(store, SIGNER, new_id=lambda: name, now=lambda: at, **more)
    assert made is not None
    return made


async def attackable(store: Store, backend: Backend) -> Tamper:
    """Accounts with some links that were sealed, and some since; one account is new."""
    await done(
        store,
        *(plain(amount, id=f"ann{amount}") for amount in (100, 20, 30, 40)),
        *(plain(amount, BOB, id=f"bob{amount}") for amount in (5, 6, 7)),
        plain(-50, USD_CLEARING, given=TRUST_CASH, id="cash"),
    )
    await sealed(store, "c1")
    await done(store, plain(-60, id="ann-60"), plain(8, id="ann8"), plain(9, CAS, id="cas9"))
    return tamper(store, backend)


async def _cut_sealed(hand: Tamper) -> None:
    await hand.cut(ANN, 4)


async def _cut_since(hand: Tamper) -> None:
    await hand.cut(ANN, 2)


async def _links_gone(hand: Tamper) -> None:
    hand.remove_links(ANN, above=2)


async def _first_gone(hand: Tamper) -> None:
    hand.remove_first(BOB)


async def _all_gone(hand: Tamper) -> None:
    hand.remove_links(BOB)


async def _all_gone_and_put_back(hand: Tamper) -> None:
    await hand.cut(BOB, 3)


async def _account_and_links_gone(hand: Tamper) -> None:
    hand.remove_links(BOB)
    hand.remove_account(BOB)


async def _row_gone(hand: Tamper) -> None:
    hand.remove_account(BOB)


async def _new_row_gone(hand: Tamper) -> None:
    hand.remove_account(CAS)


async def _swapped(hand: Tamper) -> None:
    await hand.swap(ANN, BOB)


async def _rows_swapped(hand: Tamper) -> None:
    ann, bob = await hand.account(ANN), await hand.account(BOB)
    for name, row in ((ANN, bob), (BOB, ann)):
        hand.change_account(
            name, balance=row.balance, raised=row.raised, head=row.head, number=row.number
        )


async def _amount(hand: Tamper, account: str, number: int) -> None:
    link, _ = (await hand.links(account))[number - 1]
    hand.change_links(account, [replace(link, amount=link.amount - 1, entries=(link.amount - 1,))])


async def _sealed_amount(hand: Tamper) -> None:
    await _amount(hand, BOB, 2)


async def _new_amount(hand: Tamper) -> None:
    await _amount(hand, ANN, 6)


async def _entries(hand: Tamper) -> None:
    link, _ = (await hand.links(BOB))[1]
    hand.change_links(BOB, [replace(link, entries=(link.amount - 1, 1))])


async def _entries_off(hand: Tamper) -> None:
    link, _ = (await hand.links(BOB))[1]
    hand.change_links(BOB, [replace(link, entries=(link.amount, 1))])


async def _sealed_meta(hand: Tamper) -> None:
    hand.change_meta("bob6", '{"kind":"gift"}')


async def _new_meta(hand: Tamper) -> None:
    hand.change_meta("cas9", '{"kind":"gift"}')


async def _hash(hand: Tamper) -> None:
    link, _ = (await hand.links(BOB))[1]
    hand.change_links(BOB, [replace(link, hash="ab" * 32)])


async def _link_balance(hand: Tamper) -> None:
    link, _ = (await hand.links(ANN))[4]
    hand.change_links(ANN, [replace(link, balance=link.balance + 1)])


async def _link_raised(hand: Tamper) -> None:
    link, _ = (await hand.links(ANN))[5]
    hand.change_links(ANN, [replace(link, raised=link.raised + 1)])


async def _balance(hand: Tamper) -> None:
    hand.change_account(ANN, balance=1_000_000)


async def _sealed_balance(hand: Tamper) -> None:
    hand.change_account(BOB, balance=1_000_000)


async def _raised(hand: Tamper) -> None:
    hand.change_account(BOB, raised=1_000_000)


async def _put_back(hand: Tamper) -> None:
    """The money is back, and the links of the spend stay where they are."""
    await hand.put_back(ANN, [link for link, _ in await hand.links(ANN)][:4])


async def _put_ahead(hand: Tamper) -> None:
    hand.change_account(BOB, number=9)


async def _phantom(hand: Tamper) -> None:
    hand.add_account(EVE, 1_000, 1)


async def _rewritten(hand: Tamper) -> None:
    await hand.rewrite(BOB, 2, -1_000)


async def _all_rewritten(hand: Tamper) -> None:
    """Before the seal, with every hash made to fit, on both sides of the posting."""
    place = next(
        link.number for link, _ in await hand.links("platform:stored_value") if link.amount == 6
    )
    await hand.rewrite(BOB, 2, -1_000)
    await hand.rewrite("platform:stored_value", place, 1_000)


async def _renamed(hand: Tamper) -> None:
    hand.rename(BOB, EVE)


ATTACKS: dict[str, tuple[Attack, str | None]] = {
    "the last links, sealed ones too": (_cut_sealed, ANN),
    "the last links since the seal": (_cut_since, None),
    "links and not the row": (_links_gone, ANN),
    "the first link, sealed long ago": (_first_gone, BOB),
    "all links": (_all_gone, BOB),
    "all links, the row empty": (_all_gone_and_put_back, BOB),
    "all links and the row": (_account_and_links_gone, BOB),
    "a sealed row": (_row_gone, BOB),
    "a row since the seal": (_new_row_gone, CAS),
    "two accounts exchanged": (_swapped, ANN),
    "two rows exchanged": (_rows_swapped, ANN),
    "a sealed amount": (_sealed_amount, BOB),
    "an amount since the seal": (_new_amount, ANN),
    "a sealed link's entries": (_entries, BOB),
    "entries that are not the amount": (_entries_off, BOB),
    "sealed metadata": (_sealed_meta, BOB),
    "metadata since the seal": (_new_meta, CAS),
    "a hash": (_hash, BOB),
    "a link's balance": (_link_balance, ANN),
    "what raised a link's account": (_link_raised, ANN),
    "a balance": (_balance, ANN),
    "a sealed balance": (_sealed_balance, BOB),
    "what raised an account": (_raised, BOB),
    "a row put back to the seal": (_put_back, ANN),
    "a row put ahead": (_put_ahead, BOB),
    "a row that no posting made": (_phantom, EVE),
    "a sealed chain rewritten": (_rewritten, BOB),
    "a sealed posting rewritten": (_all_rewritten, BOB),
    "an account renamed": (_renamed, BOB),
}


BEHIND_THE_SEAL = (
    "the first link, sealed long ago",
    "a sealed amount",
    "a sealed link's entries",
    "entries that are not the amount",
    "sealed metadata",
    "a hash",
    "what raised an account",
)
"""A seal goes on from what was sealed; that it cannot be altered unseen is verified and proved."""


BESIDE = ("a row put back to the seal", "a row since the seal")
"""In memory a row is the only way to its links."""
