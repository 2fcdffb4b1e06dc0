"""A ledger as lines of JSON, to be kept elsewhere and verified without a database.

The first line has the last checkpoint; then each account with what was sealed of it, followed by
its links; the last line counts them, so that a file that was cut is known as such.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Struct

from offpath.economy.ledger.chains import (
    MOST_BREAKS,
    REPLACED,
    STANDINGS,
    VANISHED,
    Break,
    ChainWalk,
    all_links,
    all_sides,
    leaf_of,
)
from offpath.economy.ledger.merkle import Root, Tree
from offpath.economy.ledger.signatures import NUMBERED, VERSION, SealVerifier, verify_checkpoint
from offpath.economy.ledger.standings import Standings, checkpoint_of, leaf_at
from offpath.economy.ledger.verification import LEAVES, SIGNATURE
from offpath.model.ledger.chart import chart
from offpath.model.ledger.faults import MalformedOperation, UnknownAccount
from offpath.model.ledger.posting import LinkRecord
from offpath.model.ledger.records import AccountRecord, Checkpoint, Leaf

if TYPE_CHECKING:
    from offpath.store.ledger import LedgerStore

FORMAT: Final = 1


class FirstLine(Struct, frozen=True, kw_only=True, tag="header", tag_field="type"):
    """The first line."""

    format: int = FORMAT
    checkpoint: Checkpoint | None = None
    trimmed: Checkpoint | None = None
    """The checkpoint up to which postings were archived and removed; None: nothing was."""


class AccountLine(Struct, frozen=True, kw_only=True, tag="account", tag_field="type"):
    """An account: as it is (None: it is not there), and as it was sealed (None: it was not)."""

    account: AccountRecord | None = None
    leaf: Leaf | None = None
    standing: LinkRecord | None = None
    """The link at which the last trim has left its chain, if it was there."""


class LinkLine(Struct, frozen=True, kw_only=True, tag="link", tag_field="type"):
    """A link of the account above it, with its posting's metadata."""

    link: LinkRecord
    meta: str


class LastLine(Struct, frozen=True, kw_only=True, tag="end", tag_field="type"):
    """The last line."""

    accounts: int
    links: int


Line = FirstLine | AccountLine | LinkLine | LastLine
_DECODER: Final[msgspec.json.Decoder[Line]] = msgspec.json.Decoder(Line)


class Exported(Struct, frozen=True, kw_only=True):
    """The proof of an exported file."""

    checkpoint: Checkpoint | None = None
    problems: tuple[str, ...] = ()
    """Of the checkpoint: ``signature``, ``leaves``, ``unsigned`` (there is none, so nobody says
    that the file is ours); of the file: ``cut``, ``unbalanced``, ``accounts`` (one is there twice,
    or at another place than its own); ``standings``: trimmed chains do not go on from where the
    checkpoint of the trim has them.
    """
    breaks: tuple[Break, ...] = ()
    """At most 100."""
    accounts: int = 0
    links: int = 0
    root: str = ""
    """The root of all accounts as they are in the file; empty when they have none."""

    @property
    def holds(self) -> bool:
        """True if nothing is wrong with it."""
        return not self.problems and not self.breaks


async def export(store: LedgerStore) -> AsyncIterator[bytes]:
    """The lines of a ledger as it is at this moment, each with its newline."""
    async with store.ledger_snapshot() as reads:
        checkpoints = await reads.ledger_checkpoints(limit=1)
        trims, begun = await reads.ledger_trims(), Standings(reads)
        yield _line(
            FirstLine(
                checkpoint=checkpoints[0] if checkpoints else None,
                trimmed=await checkpoint_of(reads, trims[0].checkpoint) if trims else None,
            )
        )
        links = all_links(reads)
        pending = await anext(links, None)
        accounts = linked = 0
        async for side in all_sides(reads):
            accounts += 1
            standing = await begun.of(side.name)
            yield _line(AccountLine(account=side.account, leaf=side.leaf, standing=standing))
            while pending is not None and pending[0].account <= side.name:
                linked += 1
                yield _line(LinkLine(link=pending[0], meta=pending[1]))
                pending = await anext(links, None)
        while pending is not None:  # links whose account is not there
            linked += 1
            yield _line(LinkLine(link=pending[0], meta=pending[1]))
            pending = await anext(links, None)
        yield _line(LastLine(accounts=accounts, links=linked))


def verify_lines(lines: Iterable[bytes], keys: SealVerifier | None) -> Exported:
    """Replay an exported ledger; without ``keys`` the signature is not looked at.

    Raises ``MalformedOperation`` for what is not such a file.
    """
    run = _Replay(keys)
    for number, line in enumerate(lines, start=1):
        if line.strip():
            run.take(_parsed(line, number), number)
    return run.done()


class _Replay:
    def __init__(self, keys: SealVerifier | None) -> None:
        self._keys = keys
        self._header: FirstLine | None = None
        self._walk: ChainWalk | None = None
        self._line: AccountLine | None = None
        self._whole = True
        self._sealed = Tree(VERSION)
        self._live = Tree(VERSION)
        self._begun = Tree(NUMBERED)
        self._sums: dict[str, int] = {}
        self._breaks: dict[str, Break] = {}
        self._accounts = self._links = 0
        self._end: LastLine | None = None

    def take(self, line: Line, number: int) -> None:
        if (self._header is None) != isinstance(line, FirstLine):
            raise MalformedOperation(f"line {number}: this is not an exported ledger")
        match line:
            case FirstLine():
                if line.format != FORMAT:
                    raise MalformedOperation(
                        f"line {number}: it is of format {line.format}, and this release reads "
                        f"{FORMAT}"
                    )
                self._header = line
                version = VERSION if line.checkpoint is None else line.checkpoint.v
                self._sealed = Tree(version)
            case AccountLine():
                self._finish()
                self._begin(line)
            case LinkLine():
                self._step(line)
            case LastLine():
                self._finish()
                self._end = line

    def done(self) -> Exported:
        self._finish()
        checkpoint = None if self._header is None else self._header.checkpoint
        root = self._live.root()
        return Exported(
            checkpoint=checkpoint,
            problems=tuple(self._problems(checkpoint)),
            breaks=tuple(self._breaks.values()),
            accounts=self._accounts,
            links=self._links,
            root="" if root is None else root.hash,
        )

    def _problems(self, checkpoint: Checkpoint | None) -> Iterable[str]:
        if not self._goes_on():
            yield STANDINGS
        if self._end is None or self._end != LastLine(accounts=self._accounts, links=self._links):
            yield "cut"
        if any(self._sums.values()):
            yield "unbalanced"
        if self._live.root() is None:
            yield "accounts"
        if checkpoint is None:
            yield from self._unsigned()
            return
        signed = Root(checkpoint.root, checkpoint.sum, checkpoint.count)
        if self._sealed.root() != signed:
            yield LEAVES
        if self._keys is not None and not verify_checkpoint(checkpoint, self._keys):
            yield SIGNATURE

    def _goes_on(self) -> bool:
        """True if trimmed chains go on from where a checkpoint of ours has them."""
        trimmed = None if self._header is None else self._header.trimmed
        if trimmed is None:
            return self._begun.root() == Tree(NUMBERED).root()
        signed = Root(trimmed.root, trimmed.sum, trimmed.count)
        ours = self._keys is None or verify_checkpoint(trimmed, self._keys)
        return ours and self._begun.root() == signed

    def _unsigned(self) -> Iterable[str]:
        """The result without a checkpoint: then nothing was sealed."""
        sealed = self._sealed.root()
        if sealed is None or sealed.count:
            yield LEAVES
        if self._keys is not None:
            yield "unsigned"

    def _begin(self, line: AccountLine) -> None:
        self._accounts += 1
        self._line, self._whole = line, True
        if line.leaf is not None:
            self._sealed.add(line.leaf)
        if line.standing is not None:
            self._begun.add(leaf_at(line.standing))
        if line.account is None:
            name = "" if line.leaf is None else line.leaf.account
            self._break(Break(account=name, reason=VANISHED))
            return
        self._walk = ChainWalk(line.account.id, leaf=line.leaf)
        with suppress(UnknownAccount):  # a break by itself
            self._live.add(leaf_of(line.account))

    def _step(self, line: LinkLine) -> None:
        self._links += 1
        link, walk = line.link, self._walk
        if walk is not None and walk.account == link.account and walk.number == 0:
            self._begin_chain(walk, link)
        self._sum(link)
        if walk is None or walk.account != link.account:
            self._tell(Break(account=link.account, reason=VANISHED))
        elif self._whole and (found := walk.step(link, line.meta)) is not None:
            self._break(found)
        elif self._whole and self._unlike(link):
            self._break(Break(account=link.account, reason=REPLACED, posting=link.posting))

    def _begin_chain(self, walk: ChainWalk, link: LinkRecord) -> None:
        """The first link of a chain: what was trimmed before it counts as the link says."""
        walk.begin(link, None if self._line is None else self._line.standing)
        if walk.number:
            currency = chart(link.account).currency
            self._sums[currency] = self._sums.get(currency, 0) + walk.sum

    def _sum(self, link: LinkRecord) -> None:
        try:
            currency = chart(link.account).currency
        except UnknownAccount:
            return  # a break by itself
        self._sums[currency] = self._sums.get(currency, 0) + sum(link.entries)

    def _unlike(self, link: LinkRecord) -> bool:
        """True if it is at the place where the trim has left the chain, and another link."""
        standing = None if self._line is None else self._line.standing
        return standing is not None and standing.number == link.number and standing != link

    def _finish(self) -> None:
        """The account before is over: it must be as its chain says, and as long as was sealed."""
        line, walk, self._line, self._walk = self._line, self._walk, None, None
        if line is None or walk is None or not self._whole:
            return
        if (found := walk.end(line.account)) is not None:
            self._break(found)

    def _break(self, found: Break) -> None:
        self._whole = False
        self._tell(found)

    def _tell(self, found: Break) -> None:
        if len(self._breaks) < MOST_BREAKS:
            self._breaks.setdefault(found.account, found)


def _line(line: Line) -> bytes:
    return msgspec.json.encode(line) + b"\n"


def _parsed(line: bytes, number: int) -> Line:
    try:
        return _DECODER.decode(line)
    except (ValueError, RecursionError) as error:  # no JSON, of another form, or no UTF-8
        raise MalformedOperation(f"line {number} is not a line of a ledger: {error}") from error
