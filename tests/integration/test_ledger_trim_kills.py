"""A trim whose process is killed by ``kill -9``: another one goes on, and the books hold."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from pathlib import Path

import pytest

from offpath.economy.ledger.archive_files import verify_archives, write_archive
from offpath.economy.ledger.archive_live import continued
from offpath.economy.ledger.checkpoint import seal
from offpath.economy.ledger.proof import prove
from offpath.economy.ledger.verification import verify_last
from offpath.economy.testing import TestSigner
from offpath.store.backends import make_store
from offpath.store.protocol import Store
from tests.conformance.builders import fresh_id
from tests.conformance.ledger_builders import done, heads, plain
from tests.unit.economy.marketplace import RATES

ROOT = Path(__file__).resolve().parents[2]
SIGNER = TestSigner()
POSTINGS = 12


async def trimmed(url: str, file: Path, moment: str) -> int:
    """Trim in a process of its own; its exit code."""
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.integration.ledger_trimmer", url, str(file), moment),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    _, err = await child.communicate()
    assert child.returncode in {0, -signal.SIGKILL}, err.decode()[-3000:]
    return child.returncode or 0


async def archived(store: Store, file: Path) -> None:
    """Postings, sealed and archived, and one behind them."""
    for number in range(POSTINGS):
        await done(store, plain(100 + number, f"u{number % 4}:spendable", id=f"p{number}"))
    sealed = await seal(store, SIGNER, new_id=fresh_id, now=lambda: round(time.time() * 1000))
    assert sealed is not None
    await write_archive(store, file, SIGNER)
    await done(store, plain(7, "u0:spendable", id="late"))


async def holds(store: Store, file: Path) -> None:
    """Each proof, and that the ledger goes on from the archive."""
    proof = await prove(store, RATES)
    assert (proof.wrong, proof.broken, proof.drift) == ((), None, ())
    assert (proof.conserved, proof.no_overdraft) == (True, True)
    assert (await verify_last(store, SIGNER, full=True)).lines == ()
    (found,), last = verify_archives([file], SIGNER)
    assert found.holds
    assert last is not None
    assert (await continued(store, last)).holds


@pytest.mark.timeout(900)
async def test_a_trim_goes_on_wherever_its_process_was_killed(url: str, tmp_path: Path) -> None:
    store, file = make_store(url), tmp_path / "1.gz"
    await store.open()
    try:
        await archived(store, file)
        before, counts = await heads(store), await store.ledger_counts()

        assert await trimmed(url, file, "begin") == -signal.SIGKILL
        assert await store.ledger_trims() == []
        assert await trimmed(url, file, "row") == -signal.SIGKILL
        assert [one.done for one in await store.ledger_trims()] == [0]
        await holds(store, file)

        for steps in (1, 2):  # each goes one step further, and is killed in the next one
            assert await trimmed(url, file, "step") == -signal.SIGKILL
            (under_way,) = await store.ledger_trims()
            assert (under_way.done, under_way.finished) == (3 * steps, False)
            await holds(store, file)

        assert await asyncio.gather(*(trimmed(url, file, "none") for _ in range(2))) == [0, 0]
        (made,) = await store.ledger_trims()
        after = await store.ledger_counts()
        assert made.finished
        # Of four wallets and the other side the last link each is left.
        assert made.links == counts.links - after.links == 2 * POSTINGS - 5
        assert made.postings == counts.postings - after.postings == POSTINGS - 4
        assert await heads(store) == before
        await holds(store, file)
    finally:
        await store.close()
