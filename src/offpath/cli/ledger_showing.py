"""The views of a ledger: accounts, statements, proofs and checkpoints, as text and as JSON."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click
import msgspec

from offpath.cli import output

if TYPE_CHECKING:
    from offpath.ledger.checkpoint import Verification
    from offpath.ledger.exporting import Exported
    from offpath.ledger.proof import Proof
    from offpath.model.ledger.posting import LinkRecord
    from offpath.model.ledger.records import AccountRecord, Checkpoint


def money_text(account: str, minor: int) -> str:
    """An amount as text."""
    from offpath.model.ledger import money
    from offpath.model.ledger.chart import chart

    return money.text(chart(account).currency, minor)


def account_document(account: AccountRecord) -> dict[str, Any]:
    """An account as JSON."""
    return {
        "account": account.id,
        "balance": money_text(account.id, account.balance),
        "postings": account.number,
        "head": account.head,
    }


def link_document(link: LinkRecord, kind: str) -> dict[str, Any]:
    """A link as JSON."""
    from offpath.model.ledger.chart import chart

    return {
        "number": link.number,
        "at": moment(link.at),
        "posting": link.posting,
        "kind": kind,
        "change": money_text(link.account, chart(link.account).change(link.amount)),
        "balance": money_text(link.account, link.balance),
        "hash": link.hash,
    }


def print_statement(account: str, links: list[LinkRecord], kinds: dict[str, str]) -> None:
    """A statement as a table."""
    documents = [link_document(one, kinds.get(one.posting, "")) for one in links]
    columns = ("number", "at", "kind", "change", "balance", "posting")
    rows = [tuple(str(one[name]) for name in columns) for one in documents]
    output.print_table(columns, rows, empty=f"nothing was posted to {account}")


def proof_document(proof: Proof) -> dict[str, Any]:
    """A proof as JSON."""
    document: dict[str, Any] = msgspec.to_builtins(proof)
    return {"holds": proof.holds, "shortfall": f"{usd(proof.shortfall)}", **document}


def print_proof(proof: Proof) -> None:
    """A proof for people."""
    what = f"{proof.links} links replayed" if proof.full else "the chains were not replayed"
    click.echo(f"{proof.accounts} accounts, {what}")
    for name, holds in (
        ("conserved", proof.conserved),
        ("backed", proof.backed),
        ("no overdraft", proof.no_overdraft),
        # who does not replay them has only looked at their heads
        ("chains intact" if proof.full else "heads of chains in form", proof.chain_intact),
        *((("balances consistent", proof.consistent),) if proof.full else ()),
        ("rows as the postings say" if proof.full else "payouts as the postings say", proof.rows),
    ):
        click.echo(f"  {'yes' if holds else 'NO ':3}  {name}")
    stand = proof.position
    click.echo(f"owed {usd(stand.obligations)}, held {usd(stand.held)}")
    if proof.shortfall:
        click.echo(f"missing {usd(proof.shortfall)}")
    if proof.broken is not None:
        click.echo(f"broken: {output.clean(str(proof.broken))}")
    for drift in proof.drift:
        cached, summed = (money_text(drift.account, one) for one in (drift.cached, drift.summed))
        click.echo(f"drift: {output.clean(drift.account)} says {cached}, its entries {summed}")
    for line in proof.wrong:
        click.echo(f"wrong: {output.clean(line)}")
    for account in proof.overdrawn:
        click.echo(f"overdrawn: {output.clean(account)}")


def verification_document(found: Verification) -> dict[str, Any]:
    """A verification as JSON."""
    return {
        "verified": None if found.checkpoint is None else found.checkpoint.id,
        "mismatch": found.mismatch,
        "problems": list(found.problems),
        "breaks": msgspec.to_builtins(found.breaks),
    }


def print_verification(found: Verification) -> None:
    """A verification for people."""
    print_findings(found.checkpoint, [*found.problems, *map(str, found.breaks)])


def print_findings(sealed: Checkpoint | None, findings: list[str]) -> None:
    """The outcome of a checkpoint."""
    if sealed is None and not findings:
        click.echo("no checkpoint was sealed yet")
    elif sealed is not None:
        when = moment(sealed.at)
        verdict = "does NOT hold" if findings else "holds"
        click.echo(f"checkpoint {sealed.id} of {when}, {sealed.count} accounts: {verdict}")
    for finding in findings:
        click.echo(f"  {output.clean(finding)}")


def exported_document(found: Exported) -> dict[str, Any]:
    """The proof of an exported file, as JSON."""
    document: dict[str, Any] = msgspec.to_builtins(found)
    return {"holds": found.holds, **document}


def checkpoint_document(sealed: Checkpoint) -> dict[str, Any]:
    """A checkpoint as JSON."""
    document: dict[str, Any] = msgspec.to_builtins(sealed)
    return {**document, "at": moment(sealed.at)}


def usd(minor: int) -> str:
    """Dollars as text."""
    from offpath.model.ledger import money

    return money.text("USD", minor)


def moment(millis: int) -> str:
    """A time as text."""
    return datetime.fromtimestamp(millis / 1000, UTC).isoformat(timespec="milliseconds")
