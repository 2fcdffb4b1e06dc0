"""``offpath ledger``: balances, statements, proofs and checkpoints of the credits ledger."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from offpath.app import App
from offpath.cli import output
from offpath.cli.ledger_showing import (
    account_document,
    checkpoint_document,
    exported_document,
    link_document,
    money_text,
    print_findings,
    print_proof,
    print_statement,
    print_verification,
    proof_document,
    verification_document,
)
from offpath.cli.older_frame import FAILED, command, json_option, limit_option, url_option, with_app
from offpath.cli.writing import whole_file
from offpath.errors import InvalidArgument, NotFound, OffpathError
from offpath.model.json_text import decode_json

if TYPE_CHECKING:
    from offpath.ledger.checkpoint import Verification, Verifies
    from offpath.ledger.signing import Ed25519Signer
    from offpath.model.finding import FindingRecord
    from offpath.model.ledger.rates import Rate, Rates
    from offpath.model.ledger.records import Checkpoint

SECRET = "OFFPATH_SIGNING_SECRET"  # noqa: S105 - the variable's name
PRIOR = "OFFPATH_SIGNING_SECRETS_PRIOR"

key_option = click.option(
    "--public-key",
    "public_keys",
    metavar="HEX",
    multiple=True,
    help=f"Who may have signed; may be repeated. Without it: the secrets in {SECRET} and {PRIOR}.",
)


anchor_option = click.option(
    "--anchor",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="A checkpoint that was kept elsewhere, as `ledger checkpoint --json` printed it: the last "
    "one must go back to it.",
)


def _rate_option(name: str) -> Callable[[Any], Any]:
    return click.option(
        f"--{name}",
        metavar="VALUE/SCALE",
        default="5/3",
        show_default=True,
        help=f"The {name} rate: VALUE/10**SCALE dollars a credit.",
    )


@click.group()
def ledger() -> None:
    """The credits ledger: balances, statements, proofs, checkpoints."""


@ledger.command("balance")
@click.argument("accounts", nargs=-1, metavar="ACCOUNT...")
@click.option("--prefix", default="", help="All accounts whose id begins so, such as `usr_a:`.")
@click.option("--after", metavar="ACCOUNT", default="", help="Go on after this account.")
@limit_option
@url_option
@json_option
@command
def balance(
    accounts: tuple[str, ...],
    prefix: str,
    after: str,
    limit: int,
    url: str | None,
    *,
    as_json: bool,
) -> int | None:
    r"""What accounts hold; without an ACCOUNT, all of them.

    \b
    offpath ledger balance ann:spendable ann:earned
    offpath ledger balance --prefix platform:
    """
    _require_accounts(accounts)

    async def work(app: App) -> None:
        found = await app.store().ledger_accounts(
            ids=accounts, prefix=prefix, after=after, limit=max(limit, len(accounts))
        )
        if missing := sorted(set(accounts) - {one.id for one in found}):
            raise NotFound(f"nothing was ever posted to {', '.join(missing)}")
        if as_json:
            more = found[-1].id if not accounts and len(found) == limit else None
            output.print_json({"items": [account_document(one) for one in found], "next": more})
        else:
            rows = [(one.id, money_text(one.id, one.balance), str(one.number)) for one in found]
            output.print_table(("account", "balance", "postings"), rows, empty="no accounts")

    return with_app(url, work)


@ledger.command("statement")
@click.argument("account")
@click.option("--before", type=int, metavar="NUMBER", default=0, help="Go on below this number.")
@limit_option
@url_option
@json_option
@command
def statement(
    account: str, before: int, limit: int, url: str | None, *, as_json: bool
) -> int | None:
    r"""What was posted to ACCOUNT, the latest first.

    \b
    offpath ledger statement ann:spendable --limit 20
    """
    _require_accounts((account,))

    async def work(app: App) -> None:
        store = app.store()
        links = await store.ledger_links(account, after=before, limit=limit, newest=True)
        postings = await store.ledger_postings(ids=[one.posting for one in links], limit=limit)
        kinds = {one.id: str(one.facts.get("kind", "")) for one in postings}
        if as_json:
            more = links[-1].number if len(links) == limit else None
            items = [link_document(one, kinds.get(one.posting, "")) for one in links]
            output.print_json({"account": account, "items": items, "next": more})
        else:
            print_statement(account, links, kinds)

    return with_app(url, work)


@ledger.command("prove")
@click.option("--light", is_flag=True, help="Look at accounts only; do not replay the chains.")
@_rate_option("par")
@_rate_option("payout")
@url_option
@json_option
@command
def prove_ledger(
    par: str, payout: str, url: str | None, *, light: bool, as_json: bool
) -> int | None:
    r"""Prove that the books hold.

    Conserved, backed, nothing overdrawn, every chain whole. Exit code 1 when they do not.

    \b
    offpath ledger prove
    """
    rates = _rates(par, payout)

    async def work(app: App) -> int | None:
        from offpath.ledger.proof import prove

        proof = await prove(app.store(), rates, full=not light)
        if as_json:
            output.print_json(proof_document(proof))
        else:
            print_proof(proof)
        return None if proof.holds else FAILED

    return with_app(url, work)


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
@anchor_option
@key_option
@url_option
@json_option
@command
def verify(
    offline: Path | None,
    anchor: Path | None,
    public_keys: tuple[str, ...],
    url: str | None,
    *,
    full: bool,
    as_json: bool,
) -> int | None:
    r"""Verify that the ledger only grew.

    Since the last checkpoint, and that we signed it. Exit code 1 when not.

    \b
    offpath ledger verify --public-key …
    offpath ledger verify --offline ledger.jsonl
    """
    keys = _keys(public_keys)
    if offline is not None:
        if anchor is not None:
            raise InvalidArgument("--anchor is for a database: --offline compares with no other")
        return _verify_file(offline, keys, as_json=as_json)
    anchored = _anchored(anchor)

    async def work(app: App) -> int | None:
        from offpath.ledger.checkpoint import verify_last

        found = await verify_last(app.store(), keys, anchored, full=full)
        standing = await _noted(app, found)
        if as_json:
            output.print_json({**verification_document(found), "finding": standing and standing.id})
        else:
            print_verification(found)
        return FAILED if found.mismatch or standing is not None else None

    return with_app(url, work)


@ledger.command("accept")
@click.argument("finding")
@click.option("--reason", required=True, help="Why the books are right as they are now.")
@url_option
@json_option
@command
def accept(finding: str, reason: str, url: str | None, *, as_json: bool) -> int | None:
    r"""Accept the finding of this id.

    Until then nothing is sealed, paid out or taken as a fee. The next seal proves every chain from
    its beginning and signs the ledger as it is.

    \b
    offpath ledger accept 0192… --reason "restored from the backup of Monday"
    """
    if not reason.strip():
        raise InvalidArgument("--reason says why the books are right as they are now")

    async def work(app: App) -> None:
        found = await app.store().accept_finding(finding, reason)
        if found is None:
            raise NotFound(
                f"no finding {finding!r} stands: `offpath ledger verify` names the one that does"
            )
        if as_json:
            output.print_json(msgspec.to_builtins(found))
        else:
            click.echo(f"accepted {found.name}, which stands since {found.since.isoformat()}:")
            for line in found.text.splitlines():
                click.echo(f"  {output.clean(line)}")

    return with_app(url, work)


@ledger.command("checkpoint")
@anchor_option
@url_option
@json_option
@command
def checkpoint(anchor: Path | None, url: str | None, *, as_json: bool) -> int | None:
    r"""Prove what moved since the last one, and sign.

    Nothing is sealed when nothing was posted since.

    \b
    offpath ledger checkpoint --json > last.json
    offpath ledger checkpoint --anchor last.json
    """
    signer = _signer()
    anchored = _anchored(anchor)

    async def work(app: App) -> None:
        from offpath.ledger.checkpoint import seal

        def now() -> int:
            return round(app.clock.now().timestamp() * 1000)

        sealed = await seal(
            app.store(),
            signer,
            new_id=lambda: f"chk_{app.new_id()}",
            now=now,
            anchored=anchored,
        )
        if as_json:
            last = [sealed] if sealed else await app.store().ledger_checkpoints(limit=1)
            output.print_json(
                {
                    "sealed": sealed and checkpoint_document(sealed),
                    "last": checkpoint_document(last[0]) if last else None,
                }
            )
        elif sealed is None:
            click.echo("nothing was posted since the last checkpoint")
        else:
            click.echo(f"sealed {sealed.id}: {sealed.count} accounts, root {sealed.root}")

    return with_app(url, work)


@ledger.command("export")
@click.argument(
    "file", type=click.Path(dir_okay=False, writable=True, allow_dash=True, path_type=Path)
)
@url_option
@command
def export_ledger(file: Path, url: str | None) -> int | None:
    r"""Write the whole ledger to FILE.

    - is standard output. The file is verified anywhere, by `verify --offline`.

    \b
    offpath ledger export ledger.jsonl
    """

    async def work(app: App) -> None:
        from offpath.ledger.exporting import export

        lines = 0
        with whole_file(file) as written:
            async for line in export(app.store()):
                written.write(line)
                lines += 1
        click.echo(f"{lines} lines", err=True)

    return with_app(url, work)


async def _noted(app: App, found: Verification) -> FindingRecord | None:
    """Keep a mismatch, and give the one that stands and is not accepted.

    What only says that other keys or another anchor were given than the ledger has is no finding:
    who verifies may have been wrong.
    """
    from offpath.ledger.checkpoint import ROLLED_BACK, SIGNATURE
    from offpath.ledger.standing import hint, mismatch, note

    given = (SIGNATURE, ROLLED_BACK)
    lines = [one for one in found.lines if one not in given and not one.endswith(f": {SIGNATURE}")]
    if lines:
        try:
            await note(app.store(), lines, app.new_id())
        except OffpathError as error:  # a role that only reads
            click.echo(f"this cannot be kept as a finding: {error}", err=True)
    standing = await mismatch(app.store())
    if standing is None or not standing.hinders:
        return None
    click.echo(output.clean(hint(standing)), err=True)
    return standing


def _verify_file(path: Path, keys: Verifies, *, as_json: bool) -> int | None:
    from offpath.ledger.exporting import verify_lines

    with path.open("rb") as lines:
        found = verify_lines(lines, keys)
    if as_json:
        output.print_json(exported_document(found))
    else:
        click.echo(f"{found.accounts} accounts, {found.links} links, root {found.root}")
        print_findings(found.checkpoint, [*found.problems, *map(str, found.breaks)])
    return None if found.holds else FAILED


# -- what is given ------------------------------------------------------------------------------


def _require_accounts(accounts: tuple[str, ...]) -> None:
    from offpath.model.ledger.chart import chart
    from offpath.model.ledger.faults import UnknownAccount

    for account in accounts:
        try:
            chart(account)
        except UnknownAccount as error:
            raise InvalidArgument(str(error)) from error


def _rates(par: str, payout: str) -> Rates:
    from offpath.model.ledger.rates import Rates

    pegged = _rate("par", par)
    return Rates(buy=pegged, par=pegged, payout=_rate("payout", payout))


def _rate(name: str, given: str) -> Rate:
    from offpath.model.ledger.rates import rate

    value, _, scale = given.partition("/")
    if not value.isdecimal() or not scale.isdecimal():
        raise InvalidArgument(f"--{name} is VALUE/SCALE, as 5/3 for 0.005 dollars, not {given!r}")
    return rate(name, int(value), int(scale))


def _keys(public_keys: tuple[str, ...]) -> Verifies:
    from offpath.ledger.signing import PublicKeys

    if public_keys:
        return PublicKeys(*public_keys)
    return _signer(or_else=", or give the --public-key of who signed them")


def _signer(or_else: str = "") -> Ed25519Signer:
    from offpath.ledger.signing import Ed25519Signer

    secret = os.environ.get(SECRET, "")
    if not secret:
        what = "the secret that checkpoints are signed with (hex)"
        raise InvalidArgument(f"set {SECRET} to {what}{or_else}")
    prior = os.environ.get(PRIOR, "")
    return Ed25519Signer(secret, [one.strip() for one in prior.split(",") if one.strip()])


def _anchored(path: Path | None) -> Checkpoint | None:
    from offpath.model.ledger.records import Checkpoint

    if path is None:
        return None
    try:
        document = decode_json(path.read_bytes(), path.name, type=dict[str, Any])
        document = document.get("last", document)
        at = datetime.fromisoformat(document["at"])
        return msgspec.convert({**document, "at": round(at.timestamp() * 1000)}, Checkpoint)
    except (KeyError, TypeError, ValueError) as error:  # what msgspec raises is a ValueError
        raise InvalidArgument(
            f"{path.name} is no checkpoint as `ledger checkpoint --json` prints it: {error}"
        ) from error
