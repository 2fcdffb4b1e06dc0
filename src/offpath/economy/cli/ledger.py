"""``offpath ledger``: balances, statements, proofs and checkpoints of the credits ledger."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from offpath.app import App
from offpath.cli import output
from offpath.cli.action_log import noting
from offpath.cli.apps import store_app
from offpath.cli.files import whole_file
from offpath.cli.frame import (
    after_option,
    framed,
    limit_option,
    option_group,
    options,
    place_options,
    plain_command,
    store_command,
)
from offpath.cli.option_values import Duration, iso_time, read_by
from offpath.cli.values import Listing, Said, Shown
from offpath.economy.cli.ledger_archives import archive, verify_archive
from offpath.economy.cli.ledger_keys import keys_option, signer_given
from offpath.economy.cli.ledger_trims import trim, trims
from offpath.economy.cli.ledger_views import (
    account_page,
    checkpoint_document,
    exported_shown,
    proof_shown,
    recent_proof_shown,
    rolling_proof_shown,
    statement_page,
    verification_shown,
)
from offpath.errors import InvalidArgument, NotFound, OffpathError
from offpath.model.action import LONGEST_NOTE
from offpath.model.json_text import decode_json
from offpath.operating.short_ids import finding_whole

if TYPE_CHECKING:
    from offpath.economy.ledger.signatures import Ed25519Signer, SealVerifier
    from offpath.economy.ledger.verification import Verification
    from offpath.model.finding import FindingRecord
    from offpath.model.ledger.rates import Rate, Rates
    from offpath.model.ledger.records import Checkpoint
    from offpath.operating.noted import NotedOutcome


# -- what is given ---------------------------------------------------------------------------------


def _account(text: str, _option: str) -> str:
    from offpath.model.ledger.chart import chart
    from offpath.model.ledger.faults import UnknownAccount

    try:
        chart(text)
    except UnknownAccount as error:
        raise InvalidArgument(str(error)) from error
    return text


def _rate(text: str, option: str) -> Rate:
    from offpath.model.ledger.rates import rate

    value, _, scale = text.partition("/")
    if not value.isdecimal() or not scale.isdecimal():
        raise InvalidArgument(f"{option} is VALUE/SCALE, as 5/3 for 0.005 dollars, not {text!r}")
    return rate(option.removeprefix("--"), int(value), int(scale))


def _rates(par: Rate, payout: Rate) -> Rates:
    from offpath.model.ledger.rates import Rates

    return Rates(buy=par, par=par, payout=payout)


def _rate_option(name: str) -> Callable[[Any], Any]:
    return click.option(
        f"--{name}",
        callback=read_by(_rate),
        metavar="VALUE/SCALE",
        default="5/3",
        show_default=True,
        help=f"The {name} rate: VALUE/10**SCALE dollars a credit.",
    )


def _anchored(anchor: Path | None) -> Checkpoint | None:
    from offpath.model.ledger.records import Checkpoint

    if anchor is None:
        return None
    try:
        document = decode_json(anchor.read_bytes(), anchor.name, type=dict[str, Any])
        document = document.get("last", document)
        at = datetime.fromisoformat(document["at"])
        return msgspec.convert({**document, "at": round(at.timestamp() * 1000)}, Checkpoint)
    except (KeyError, TypeError, ValueError) as error:  # what msgspec raises is a ValueError
        raise InvalidArgument(
            f"{anchor.name} is not a checkpoint as `ledger checkpoint --json` prints it: {error}"
        ) from error


_anchor = click.option(
    "--anchor",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="A checkpoint that was kept elsewhere, as `ledger checkpoint --json` printed it: the last "
    "one must go back to it.",
)


def _reason(text: str, option: str) -> str:
    if not text.strip():
        raise InvalidArgument(f"{option} says why the books are right as they are now")
    return text


# -- commands --------------------------------------------------------------------------------------


@click.group()
def ledger() -> None:
    """The credits ledger: balances, statements, proofs, checkpoints."""


@ledger.command("balance")
@click.argument("accounts", callback=read_by(_account), nargs=-1, metavar="ACCOUNT...")
@click.option("--prefix", default="", help="Only accounts whose id begins so, such as `usr_a:`.")
@after_option("ACCOUNT", default="")
@limit_option
@store_command
async def balance(
    app: App, *, accounts: tuple[str, ...], prefix: str, after: str, limit: int
) -> Listing:
    r"""List what accounts hold; without an ACCOUNT, all of them.

    \b
    offpath ledger balance ann:spendable ann:earned
    offpath ledger balance --prefix platform:
    """
    most = max(limit, len(accounts))
    found = await app.store().ledger_accounts(ids=accounts, prefix=prefix, after=after, limit=most)
    if missing := sorted(set(accounts) - {one.id for one in found}):
        raise NotFound(f"nothing was ever posted to {', '.join(missing)}")
    return account_page(found, None if accounts else limit)


@ledger.command("statement")
@click.argument("account", callback=read_by(_account))
@click.option(
    "--before",
    type=int,
    metavar="NUMBER",
    default=0,
    help="List what precedes this number, the last of the page before.",
)
@limit_option
@store_command
async def statement(app: App, *, account: str, before: int, limit: int) -> Listing:
    r"""List what was posted to ACCOUNT, the latest first.

    \b
    offpath ledger statement ann:spendable --limit 20
    """
    from offpath.economy.ledger.statements import archived_lines, facts_of, reached

    store = app.store()
    links = await store.ledger_links(account, after=before, limit=limit, newest=True)
    facts = await facts_of(store, links)
    kinds = {name: str(one.get("kind", "")) for name, one in facts.items()}
    gone = reached(await archived_lines(store, account), links)
    return statement_page(account, links, kinds, limit, archived=gone)


@ledger.command("prove")
@click.option("--light", is_flag=True, help="Look at accounts only; do not replay the chains.")
@click.option(
    "--since",
    callback=iso_time,
    metavar="TIME",
    help="Prove what was posted since then and believe what was before; an ISO time with a zone.",
)
@click.option(
    "--cycle",
    type=Duration(0, above=True),
    metavar="DURATION",
    help="Prove the slice of the older postings whose turn it is: all of them once in each 7d.",
)
@click.option(
    "--every",
    type=Duration(0, above=True),
    metavar="DURATION",
    help="With --cycle: how often the command is run.  [default: 1h]",
)
@option_group("rates", _rates, _rate_option("par"), _rate_option("payout"))
@store_command
async def prove_ledger(
    app: App,
    *,
    light: bool,
    since: datetime | None,
    cycle: float | None,
    every: float | None,
    rates: Rates,
) -> Shown:
    r"""Prove that the books hold.

    Conserved, backed, nothing overdrawn, every chain whole. Exit code 1 when they do not.

    \b
    offpath ledger prove
    offpath ledger prove --since 2026-11-28T00:00Z
    offpath ledger prove --cycle 7d --every 1h       # each hour, from cron
    """
    from offpath.economy.ledger.proof import fails, prove
    from offpath.economy.ledger.recent_proof import prove_since
    from offpath.economy.ledger.rolling_proof import prove_turn, turn_at

    if cycle is not None:
        if light or since is not None:
            raise click.UsageError("--cycle proves its slice: leave --light and --since out")
        turn = turn_at(app.clock.now(), cycle, every or 3_600)
        async with _proving(app, {"cycle": cycle}) as told:
            rolling = await prove_turn(app.store(), turn)
            told.count(int(rolling.holds), does_not_hold=int(not rolling.holds))
        return rolling_proof_shown(rolling)
    if every is not None:
        raise click.UsageError("--every says how often a slice of --cycle is proved")
    if since is not None:
        if light:
            raise click.UsageError("--light replays nothing: leave it or --since out")
        async with _proving(app, {"since": since}) as told:
            recent = await prove_since(app.store(), since)
            told.count(recent.postings, does_not_hold=int(not recent.holds))
        return recent_proof_shown(recent)
    asked = {"full": not light}
    async with noting(app, "ledger.prove", options=asked, if_possible=True) as told:
        proof = await prove(app.store(), rates, full=not light)
        told.count(proof.accounts, **fails(proof))
    return proof_shown(proof)


def _proving(app: App, part: dict[str, Any]) -> AbstractAsyncContextManager[NotedOutcome]:
    """The note of a proof of a part: the page of the books tells of whole ones alone."""
    return noting(app, "ledger.prove_part", options=part, if_possible=True)


@ledger.command("verify")
@click.option(
    "--offline",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Verify a file that `ledger export` wrote, without a database.",
)
@click.option(
    "--full", is_flag=True, help="Replay every chain from its beginning, not only what came since."
)
@_anchor
@keys_option
@options(*place_options)
@plain_command
def verify(
    offline: Path | None,
    anchor: Path | None,
    keys: SealVerifier,
    of_app: str | None,
    url: str | None,
    *,
    full: bool,
) -> Shown:
    r"""Verify that the ledger only grew.

    Since the last checkpoint, and that we signed it. Exit code 1 when not.

    \b
    offpath ledger verify --public-key …
    offpath ledger verify --offline ledger.jsonl
    """
    if offline is None:
        return asyncio.run(_verify(store_app(url, of_app), keys, _anchored(anchor), full=full))
    if anchor is not None:
        raise InvalidArgument("--anchor is for a database: --offline compares with no other")
    from offpath.economy.ledger.export import verify_lines

    with offline.open("rb") as lines:
        return exported_shown(verify_lines(lines, keys))


async def _verify(
    opened: AbstractAsyncContextManager[App],
    keys: SealVerifier,
    anchored: Checkpoint | None,
    *,
    full: bool,
) -> Shown:
    from offpath.economy.ledger.verification import verify_last

    async with opened as app:
        async with noting(app, "ledger.verify", options=_full(full=full), if_possible=True) as told:
            found = await verify_last(app.store(), keys, anchored, full=full)
            sealed = found.checkpoint is not None
            told.count(
                int(sealed and not found.mismatch),
                nothing_sealed_yet=int(not sealed and not found.mismatch),
                mismatch=int(found.mismatch),
            )
        return verification_shown(found, await _noted(app, found))


def _full(*, full: bool) -> dict[str, Any]:
    return {"full": True} if full else {}


async def _noted(app: App, found: Verification) -> FindingRecord | None:
    """Keep a mismatch, and give the one that stands and is not accepted.

    What only says that other keys or another anchor were given than the ledger has is not a
    finding: the one who verifies may have been wrong.
    """
    from offpath.economy.ledger.mismatches import hint, mismatch, note
    from offpath.economy.ledger.verification import ROLLED_BACK, SIGNATURE

    given = (SIGNATURE, ROLLED_BACK)
    lines = [one for one in found.lines if one not in given and not one.endswith(f": {SIGNATURE}")]
    if lines:
        try:
            await note(app.store(), lines, app.new_id())
        except OffpathError as error:  # a role that only reads
            output.note(f"this cannot be kept as a finding: {error}")
    standing = await mismatch(app.store())
    if standing is None or not standing.hinders:
        return None
    output.note(hint(standing))
    return standing


@ledger.command("accept")
@click.argument("finding")
@click.option(
    "--reason",
    required=True,
    callback=read_by(_reason),
    help="The reason why the books are right as they are now.",
)
@store_command
async def accept(app: App, *, finding: str, reason: str) -> Shown:
    r"""Accept the finding of this id.

    Until then nothing is sealed, paid out or taken as a fee. The next seal proves every chain from
    its beginning and signs the ledger as it is.

    \b
    offpath ledger accept 0192… --reason "restored from the backup of Monday"
    """
    asked = {"reason": reason}
    finding = await finding_whole(app, finding)
    async with noting(app, "finding.accept", {"id": finding}, asked, note=reason[:LONGEST_NOTE]):
        found = await app.store().accept_finding(finding, reason)
        if found is None:
            raise NotFound(
                f"no finding {finding!r} stands: `offpath ledger verify` names the one that does"
            )
    heading = f"accepted {found.name}, which stands since {found.since.isoformat()}:"
    lines = [f"  {line}" for line in found.text.splitlines()]
    return Shown(msgspec.to_builtins(found), [heading, *lines])


@ledger.command("checkpoint")
@option_group("anchored", _anchored, _anchor)
@option_group("signer", signer_given)
@store_command
async def checkpoint(app: App, *, anchored: Checkpoint | None, signer: Ed25519Signer) -> Said:
    r"""Prove what moved since the last one, and sign.

    Nothing is sealed when nothing was posted since.

    \b
    offpath ledger checkpoint --json > last.json
    offpath ledger checkpoint --anchor last.json
    """
    from offpath.economy.ledger.checkpoint import seal

    async with noting(app, "ledger.checkpoint") as told:
        sealed = await seal(
            app.store(),
            signer,
            new_id=lambda: f"chk_{app.new_id()}",
            now=lambda: round(app.clock.now().timestamp() * 1000),
            anchored=anchored,
        )
        told.count(int(sealed is not None), nothing_was_posted_since=int(sealed is None))
    if sealed is None:
        last = await app.store().ledger_checkpoints(limit=1)
        document = {"sealed": None, "last": checkpoint_document(last[0]) if last else None}
        return Said(document, "nothing was posted since the last checkpoint")
    document = checkpoint_document(sealed)
    text = f"sealed {sealed.id}: {sealed.count} accounts, root {sealed.root}"
    return Said({"sealed": document, "last": document}, text)


@ledger.command("export")
@click.argument(
    "file", type=click.Path(dir_okay=False, writable=True, allow_dash=True, path_type=Path)
)
@framed(store_app, *place_options, json=False)
async def export_ledger(app: App, *, file: Path) -> Shown:
    r"""Write the whole ledger to FILE.

    - is standard output. The file is verified anywhere, by `verify --offline`.

    \b
    offpath ledger export ledger.jsonl
    """
    from offpath.economy.ledger.export import export

    lines = 0
    with whole_file(file) as written:
        async for line in export(app.store()):
            written.write(line)
            lines += 1
    return Shown(None, notes=[f"{lines} lines"])


ledger.add_command(archive)
ledger.add_command(verify_archive)
ledger.add_command(trim)
ledger.add_command(trims)
