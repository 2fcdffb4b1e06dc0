"""The two sweeps of checkpoints. §16.60-§16.68, §17.2, §17.13, cases M4."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from offpath.economy import seal_checkpoint, verify_checkpoint
from offpath.economy.sweeps.summaries import Coded, SealSummary, VerifySummary
from offpath.economy.testing import TestSigner
from offpath.errors import StoreUnavailable
from offpath.model.ledger.faults import ChainBroken
from offpath.model.tally import Verdict
from tests.unit.sweeps.economy.rig import Rig


async def sealed(rig: Rig) -> str:
    await rig.top_up("fan", "10.00")
    summary = await seal_checkpoint(rig)
    assert summary.sealed is not None
    return summary.sealed


def counted(rig: Rig, name: str, **labels: str) -> float:
    found = rig.app.metrics.get(name, **labels)
    return 0 if found is None else found.value


async def test_an_empty_ledger_is_not_sealed(rig: Rig) -> None:
    """§16.60, §16.63."""
    assert await seal_checkpoint(rig) == SealSummary()
    assert await verify_checkpoint(rig) == VerifySummary()
    assert await rig.store.ledger_checkpoints() == []


async def test_a_seal_covers_every_chain_and_verifies(rig: Rig) -> None:
    """§16.61."""
    made = await sealed(rig)
    (checkpoint,) = await rig.store.ledger_checkpoints()
    assert made.startswith("chk_")
    accounts = await rig.store.ledger_accounts()
    assert (checkpoint.id, checkpoint.count) == (made, len(accounts))
    assert (checkpoint.kid, checkpoint.sum, checkpoint.at) == ("test", 0, rig.ms)
    assert await verify_checkpoint(rig) == VerifySummary(verified=made, skipped=False)
    assert counted(rig, "offpath_economy_verifications_total", outcome="ok") == 1
    assert counted(rig, "offpath_economy_seal_seconds", outcome="sealed") == 1


@pytest.mark.parametrize("again", [True, False])
async def test_a_seal_that_cannot_be_saved_is_told(rig: Rig, again: bool) -> None:
    """§16.62."""
    await rig.top_up("fan", "10.00")
    fault = StoreUnavailable("cut") if again else ChainBroken("altered")
    rig.store.fail("save_checkpoint", error=fault)
    summary = await seal_checkpoint(rig)
    coded = (Coded("checkpoint", "STORE.FAILURE" if again else "CHAIN.BROKEN"),)
    assert summary == SealSummary(
        skipped=False, retrying=coded if again else (), dead_lettered=() if again else coded
    )
    for found in await rig.store.findings():  # what is broken stands until it is accepted
        await rig.store.accept_finding(found.id, "put right")
    assert (await seal_checkpoint(rig)).sealed is not None


async def test_honest_postings_after_a_seal_are_no_alarm(rig: Rig) -> None:
    """§16.63 as it is mended, §17.2: in the original each was a mismatch."""
    made = await sealed(rig)
    await rig.top_up("fan", "5.00")
    await rig.top_up("new", "5.00")
    assert await verify_checkpoint(rig) == VerifySummary(verified=made, skipped=False)


async def test_what_was_altered_is_a_finding_that_names_the_account(rig: Rig) -> None:
    """§16.63, cases M4: the last links of an account are gone."""
    made = await sealed(rig)
    account = rig.ledger.accounts["fan:spendable"]
    rig.ledger.links["fan:spendable"].clear()
    rig.ledger.accounts["fan:spendable"] = replace(account, balance=0, number=0, head="0" * 64)
    result = (await rig.sweep("checkpoint_verify"))["checkpoint_verify"]
    summary = result.summary
    assert isinstance(summary, VerifySummary)
    assert (result.ok, summary.mismatch, summary.verified) == (True, True, made)
    assert any("fan:spendable" in problem for problem in summary.problems)
    assert (summary.retrying, summary.dead_lettered) == ((), ())
    assert counted(rig, "offpath_economy_verifications_total", outcome="mismatch") == 1
    tally = summary.tally()
    assert (tally.verdict, tally.buckets) == (Verdict.CLEAN, {"mismatch": (made,)})
    # ... and is not sealed over (§16.68)
    assert (await seal_checkpoint(rig)).dead_lettered == (Coded("checkpoint", "CHAIN.BROKEN"),)
    assert len(await rig.store.ledger_checkpoints()) == 1


async def test_a_ledger_that_is_gone_is_a_mismatch(rig: Rig) -> None:
    """§16.64."""
    await sealed(rig)
    rig.ledger.accounts.clear()
    rig.ledger.ids.clear()
    rig.ledger.links.clear()
    assert (await verify_checkpoint(rig)).mismatch


@pytest.mark.parametrize("field", ["count", "at", "kid"])
async def test_every_field_of_a_checkpoint_is_signed(rig: Rig, field: str) -> None:
    """§17.13: in the original these three could be changed."""
    await sealed(rig)
    (checkpoint,) = rig.ledger.checkpoints
    changed = "other" if field == "kid" else getattr(checkpoint, field) + 1
    rig.ledger.checkpoints[0] = replace(checkpoint, **{field: changed})
    summary = await verify_checkpoint(rig)
    assert summary.mismatch
    assert "signature" in summary.problems


async def test_a_run_verifies_the_seal_of_the_run_before(rig: Rig) -> None:
    """§16.65, §16.11: the clean verification appears from the second run on."""
    await rig.top_up("fan", "10.00")
    first = await rig.sweep("checkpoint_verify", "checkpoint")
    assert first["checkpoint_verify"].summary == VerifySummary()
    made = first["checkpoint"].summary
    assert isinstance(made, SealSummary)
    await rig.top_up("fan", "10.00")
    second = await rig.sweep("checkpoint_verify", "checkpoint")
    assert second["checkpoint_verify"].summary == VerifySummary(verified=made.sealed, skipped=False)
    assert second["checkpoint"].summary != made


async def test_a_signature_that_is_none_is_an_error_and_no_finding(rig: Rig) -> None:
    """§16.66."""
    await sealed(rig)
    rig.ledger.checkpoints[0] = replace(rig.ledger.checkpoints[0], signature="zzz")
    summary = await verify_checkpoint(rig)
    assert summary == VerifySummary(
        skipped=False, dead_lettered=(Coded("checkpoint", "CHAIN.BROKEN"),)
    )


async def test_the_anchor_gets_what_was_sealed(rig: Rig) -> None:
    """§16.67."""
    made = await sealed(rig)
    assert [one.id for one in rig.anchor.checkpoints] == [made]
    await rig.top_up("fan", "10.00")
    summary = await seal_checkpoint(rig)
    assert (summary.anchored, summary.tally().buckets) == (True, {"anchored": (summary.sealed,)})
    assert counted(rig, "offpath_economy_anchorings_total", outcome="anchored") == 2


async def test_an_anchor_that_is_away_blocks_nothing(rig: Rig) -> None:
    """§16.67."""
    rig.anchor.error = ConnectionError("down")
    made = await sealed(rig)
    assert await verify_checkpoint(rig) == VerifySummary(verified=made, skipped=False)
    assert counted(rig, "offpath_economy_anchorings_total", outcome="failed") == 3
    await rig.top_up("fan", "10.00")
    summary = await seal_checkpoint(rig)
    tally = summary.tally()
    assert (summary.anchored, tally.buckets) == (False, {"anchor_failed": (summary.sealed,)})
    assert tally.verdict is Verdict.CLEAN
    rig.ports = replace(rig.ports, anchor=None)
    await rig.top_up("fan", "10.00")
    summary = await seal_checkpoint(rig)
    assert (summary.anchored, summary.tally().buckets) == (None, {"sealed": (summary.sealed,)})


async def test_an_older_ledger_put_in_place_is_found_by_the_anchor(rig: Rig) -> None:
    """Cases M4: yesterday's file verifies by itself, and not beside what was published since."""
    await sealed(rig)
    published = list(rig.anchor.checkpoints)
    other = Rig()
    await sealed(other)
    other.anchor.checkpoints = published
    summary = await verify_checkpoint(other)
    assert summary.mismatch
    assert summary.problems == ("rolled-back",)
    # ... and is not sealed and published over, which would end the alarm
    await other.top_up("fan", "5.00")
    assert (await seal_checkpoint(other)).dead_lettered == (Coded("checkpoint", "CHAIN.BROKEN"),)
    assert (await verify_checkpoint(other)).problems == ("rolled-back",)
    other.anchor.checkpoints = []
    assert not (await verify_checkpoint(other)).mismatch
    await other.app.close()


async def test_what_does_not_balance_is_not_sealed(rig: Rig) -> None:
    """§16.68."""
    await rig.top_up("fan", "10.00")
    account = rig.ledger.accounts["fan:spendable"]
    rig.ledger.accounts["fan:spendable"] = replace(account, balance=account.balance + 1)
    summary = await seal_checkpoint(rig)
    assert [one.code for one in summary.dead_lettered] in (
        ["CHAIN.BROKEN"],
        ["LEDGER.UNBALANCED"],
    )
    assert await rig.store.ledger_checkpoints() == []


async def test_nothing_new_is_not_sealed_again(rig: Rig) -> None:
    await sealed(rig)
    assert await seal_checkpoint(rig) == SealSummary()
    assert counted(rig, "offpath_economy_seal_seconds", outcome="skipped") == 1


async def test_a_key_that_is_no_longer_used_still_verifies(rig: Rig) -> None:
    """§16.70."""
    made = await sealed(rig)
    rig.ports = replace(rig.ports, signer=TestSigner("new", "test"))
    assert await verify_checkpoint(rig) == VerifySummary(verified=made, skipped=False)
    rig.ports = replace(rig.ports, signer=TestSigner("new"))
    assert (await verify_checkpoint(rig)).problems == ("signature",)
