"""Operations of a ledger share the fate of the caller's transaction, whatever library holds it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import offpath
from offpath.model.effects import Effects
from offpath.model.ledger.faults import Overdraft
from offpath.store.ledger import Counts
from tests.conformance.ledger_builders import ANN, BOB, STORED_VALUE, done, plain
from tests.conformance.message_builders import message
from tests.integration.within.callers import CALLERS, Caller
from tests.integration.within.test_within import rows_of

AppMaker = Callable[[str], offpath.App]
UrlOf = Callable[[str], str]

every = pytest.mark.parametrize("caller", CALLERS, ids=lambda one: one.name)


@every
@pytest.mark.parametrize("commit", [False, True], ids=["rollback", "commit"])
async def test_a_posting_is_there_when_the_caller_has_committed(
    caller: Caller, commit: bool, url_of: UrlOf, make_app: AppMaker
) -> None:
    url = url_of(caller.dialect)
    app = make_app(url)
    await app.open()
    store = app.store()
    async with caller.open(url, False) as (connection, end):
        end.commit = commit
        gift = Effects(operations=(plain(500, id="gift"), plain(200, BOB, given=ANN)))
        await store.commit_within(connection, gift)
        await store.commit_within(connection, gift)  # a repeat finds its keys
        assert await store.ledger_counts() == Counts(), "visible before the caller has committed"
    assert rows_of(url) == commit
    assert await store.ledger_counts() == (
        Counts(accounts=3, postings=2, links=4) if commit else Counts()
    )
    await done(store, plain(500, id="gift"))
    assert (await store.ledger_accounts(ids=[STORED_VALUE]))[0].balance == 500


@every
async def test_a_declined_one_leaves_nothing_in_a_transaction_that_goes_on(
    caller: Caller, url_of: UrlOf, make_app: AppMaker
) -> None:
    url = url_of(caller.dialect)
    app = make_app(url)
    await app.open()
    store = app.store()
    async with caller.open(url, False) as (connection, end):
        end.commit = True
        good, bad = plain(500, id="good"), plain(700, BOB, given=ANN)
        with pytest.raises(Overdraft):
            await store.commit_within(
                connection, Effects(messages=(message(),), operations=(good, bad))
            )
        await store.commit_within(connection, Effects(operations=(plain(5, BOB),)))
    assert rows_of(url) == 1
    assert await store.ledger_counts() == Counts(accounts=2, postings=1, links=2)
    assert (await app.messages.find(streams=[message().stream])).items == ()
