"""The views of a ledger: accounts, statements, proofs and checkpoints, as text and as JSON."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec

from offpath.cli.values import DONE, FAILED, Listing, Part, Said, Shown, Table, next_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from offpath.economy.ledger.archive import ArchiveProof
    from offpath.economy.ledger.archive_live import Continuation
    from offpath.economy.ledger.export import Exported
    from offpath.economy.ledger.proof import Proof
    from offpath.economy.ledger.recent_proof import RecentProof
    from offpath.economy.ledger.rolling_proof import RollingProof
    from offpath.economy.ledger.statements import ArchivedLines
    from offpath.economy.ledger.verification import Verification
    from offpath.model.finding import FindingRecord
    from offpath.model.ledger.posting import LinkRecord
    from offpath.model.ledger.records import AccountRecord, Checkpoint
    from offpath.model.ledger.trims import Trim


def _money(account: str, minor: int) -> str:
    from offpath.model.ledger import money
    from offpath.model.ledger.chart import chart

    return money.text(chart(account).currency, minor)


def account_page(found: list[AccountRecord], limit: int | None) -> Listing:
    """A page of accounts; without a limit, the only one."""
    rows = [(one.id, _money(one.id, one.balance), str(one.number)) for one in found]
    table = Table(("account", "balance", "postings"), rows, "no accounts")
    following = limit and next_of(found, limit, lambda one: one.id)
    return Listing([_account(one) for one in found], table, following)


def _account(account: AccountRecord) -> dict[str, Any]:
    return {
        "account": account.id,
        "balance": _money(account.id, account.balance),
        "postings": account.number,
        "head": account.head,
    }


def statement_page(
    account: str,
    links: list[LinkRecord],
    kinds: dict[str, str],
    limit: int,
    *,
    archived: ArchivedLines | None = None,
) -> Listing:
    """A page of an account's statement, and the archive that it goes on in."""
    items = [_link(one, kinds.get(one.posting, "")) for one in links]
    columns = ("number", "at", "kind", "change", "balance", "posting")
    rows = [tuple(str(one[name]) for name in columns) for one in items]
    return Listing(
        items,
        Table(columns, rows, f"nothing was posted to {account}"),
        next_of(links, limit, lambda one: one.number),
        option="--before",
        about={"account": account, "archived": archived and archived.file},
        said=() if archived is None else (_goes_on(archived),),
    )


def _goes_on(archived: ArchivedLines) -> str:
    return f"number {archived.number} and those before it are in {archived.file}"


def trims_page(found: Sequence[Trim]) -> Listing:
    """Trims, the latest first."""
    items = [_trim(one) for one in found]
    columns = ("number", "state", "file", "until", "postings", "links", "checkpoint")
    rows = [tuple(str(one[name]) for name in columns) for one in items]
    return Listing(items, Table(columns, rows, "nothing was ever removed from the ledger"))


def trim_shown(done: Trim) -> Said:
    """The removal, in a sentence and as JSON."""
    until = _moment(done.until)
    text = f"removed {done.postings} postings and {done.links} links up to {until}"
    return Said(_trim(done), f"{text}: they are in {done.file}")


def _trim(one: Trim) -> dict[str, Any]:
    return {
        "number": one.number,
        "state": "finished" if one.finished else "under way",
        "file": one.file,
        "archive": one.archive,
        "checkpoint": one.checkpoint,
        "until": _moment(one.until),
        "at": _moment(one.at),
        "postings": one.postings,
        "links": one.links,
    }


def _link(link: LinkRecord, kind: str) -> dict[str, Any]:
    from offpath.model.ledger.chart import chart

    return {
        "number": link.number,
        "at": _moment(link.at),
        "posting": link.posting,
        "kind": kind,
        "change": _money(link.account, chart(link.account).change(link.amount)),
        "balance": _money(link.account, link.balance),
        "hash": link.hash,
    }


def proof_shown(proof: Proof) -> Shown:
    """A proof of the books."""
    plain: dict[str, Any] = msgspec.to_builtins(proof)
    document = {"holds": proof.holds, "shortfall": _usd(proof.shortfall), **plain}
    return Shown(document, _proof_lines(proof), exit=DONE if proof.holds else FAILED)


def recent_proof_shown(proof: RecentProof) -> Shown:
    """A proof of what was posted since a time."""
    document = {"holds": proof.holds, **msgspec.to_builtins(proof)}
    since = proof.since.isoformat(timespec="seconds")
    until = "" if proof.until is None else f", until {proof.until.isoformat(timespec='seconds')}"
    what = f"{proof.postings} postings on {proof.accounts} accounts since {since}{until}"
    lines: list[Part] = [what]
    lines.append("  yes  chains and postings" if proof.holds else "  NO   chains and postings")
    lines += [f"broken: {one}" for one in proof.breaks]
    lines += [f"wrong: {line}" for line in proof.wrong]
    return Shown(document, lines, exit=DONE if proof.holds else FAILED)


def rolling_proof_shown(rolling: RollingProof) -> Shown:
    """A proof of the slice whose turn it is, and how far its cycle is."""
    proof = rolling.proof
    place = (
        f"slice {rolling.number} of {rolling.of}, {rolling.number / rolling.of:.1%} of the cycle"
    )
    line = f"{place} that began {rolling.begun.isoformat(timespec='seconds')}"
    document = {"holds": rolling.holds, **msgspec.to_builtins(rolling)}
    if proof is None:
        return Shown(document, [line, "nothing was posted before that"])
    shown = recent_proof_shown(proof)
    return Shown(document, [line, *shown.parts], exit=shown.exit)


def _proof_lines(proof: Proof) -> list[Part]:
    what = f"{proof.links} links replayed" if proof.full else "the chains were not replayed"
    lines: list[Part] = [f"{proof.accounts} accounts, {what}"]
    for name, holds in (
        ("conserved", proof.conserved),
        ("backed", proof.backed),
        ("no overdraft", proof.no_overdraft),
        # who does not replay them has only looked at their heads
        ("chains intact" if proof.full else "heads of chains in form", proof.chain_intact),
        *((("balances consistent", proof.consistent),) if proof.full else ()),
        ("rows as the postings say" if proof.full else "payouts as the postings say", proof.rows),
    ):
        lines.append(f"  {'yes' if holds else 'NO ':3}  {name}")
    stand = proof.position
    lines.append(f"owed {_usd(stand.obligations)}, held {_usd(stand.held)}")
    if proof.shortfall:
        lines.append(f"missing {_usd(proof.shortfall)}")
    if proof.broken is not None:
        lines.append(f"broken: {proof.broken}")
    for drift in proof.drift:
        cached, summed = (_money(drift.account, one) for one in (drift.cached, drift.summed))
        lines.append(f"drift: {drift.account} says {cached}, its entries {summed}")
    lines += [f"wrong: {line}" for line in proof.wrong]
    lines += [f"overdrawn: {account}" for account in proof.overdrawn]
    return lines


def verification_shown(found: Verification, standing: FindingRecord | None) -> Shown:
    """A verification, and the finding that stands and is not accepted."""
    document = {
        "verified": None if found.checkpoint is None else found.checkpoint.id,
        "mismatch": found.mismatch,
        "problems": list(found.problems),
        "breaks": msgspec.to_builtins(found.breaks),
        "finding": standing and standing.id,
    }
    lines = _outcome(found.checkpoint, [*found.problems, *map(str, found.breaks)])
    fine = not found.mismatch and standing is None
    return Shown(document, lines, exit=DONE if fine else FAILED)


def _outcome(sealed: Checkpoint | None, problems: list[str]) -> list[Part]:
    """The outcome of a checkpoint."""
    lines: list[Part] = [f"  {one}" for one in problems]
    if sealed is not None:
        verdict = "does NOT hold" if problems else "holds"
        at = _moment(sealed.at)
        return [f"checkpoint {sealed.id} of {at}, {sealed.count} accounts: {verdict}", *lines]
    return lines or ["no checkpoint was sealed yet"]


def exported_shown(found: Exported) -> Shown:
    """The proof of an exported file."""
    document = {"holds": found.holds, **msgspec.to_builtins(found)}
    heading = f"{found.accounts} accounts, {found.links} links, root {found.root}"
    lines = _outcome(found.checkpoint, [*found.problems, *map(str, found.breaks)])
    return Shown(document, [heading, *lines], exit=DONE if found.holds else FAILED)


def archives_shown(
    files: Sequence[Path], proofs: Sequence[ArchiveProof], live: Continuation | None
) -> Shown:
    """The proofs of archives, and that the ledger goes on from the last of them."""
    holds = all(one.holds for one in proofs) and (live is None or live.holds)
    lines: list[Part] = []
    named = list(zip(files, proofs, strict=True))
    for file, proof in named:
        counts = f"{proof.postings} postings, {proof.links} links on {proof.accounts} accounts"
        lines.append(f"{file}: {counts}")
        lines += _outcome(proof.sealed, [*proof.problems, *map(str, proof.breaks), *proof.wrong])
    if live is not None:
        lines += _continuation(live)
    document = {
        "holds": holds,
        "archives": [
            {"file": str(file), "holds": one.holds, **msgspec.to_builtins(one)}
            for file, one in named
        ],
        "ledger": live and {"holds": live.holds, **msgspec.to_builtins(live)},
    }
    return Shown(document, lines, exit=DONE if holds else FAILED)


def _continuation(live: Continuation) -> list[Part]:
    verdict = "goes on from there" if live.holds else "does NOT go on from there"
    lines: list[Part] = [f"the ledger, {live.postings} postings behind: {verdict}"]
    if not live.sealed:
        lines.append(f"  it has no checkpoint {live.checkpoint} as the archive has it")
    return [*lines, *(f"  {one}" for one in (*map(str, live.breaks), *live.wrong))]


def checkpoint_document(sealed: Checkpoint) -> dict[str, Any]:
    """A checkpoint as JSON."""
    document: dict[str, Any] = msgspec.to_builtins(sealed)
    return {**document, "at": _moment(sealed.at)}


def _usd(minor: int) -> str:
    from offpath.model.ledger import money

    return money.text("USD", minor)


def _moment(millis: int) -> str:
    return datetime.fromtimestamp(millis / 1000, UTC).isoformat(timespec="milliseconds")
