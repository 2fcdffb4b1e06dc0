"""An archive: the postings between two signed checkpoints, as lines that prove themselves.

The first line has the checkpoint that the archive ends with, and the one that it goes on from. Then
come the accounts as they stood there, the postings in the order of their commits, and a last line:
counts, the hash of all lines before, and a signature over it. Replayed, the postings must lead from
the one signed root to the other. So neither a file alone nor several in a row need a database.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from gzip import BadGzipFile
from hashlib import sha256
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from offpath.economy.ledger.chains import MOST_BREAKS, TAMPERED_HASH, Break, ChainWalk
from offpath.economy.ledger.merkle import Root, Tree
from offpath.economy.ledger.signatures import NUMBERED, SealVerifier, verify_checkpoint
from offpath.economy.ledger.verification import HISTORY, SIGNATURE
from offpath.model.ledger.faults import LedgerError, MalformedOperation
from offpath.model.ledger.posting import LinkRecord, PostingRecord, canonical, verified
from offpath.model.ledger.records import Checkpoint, Leaf

FORMAT: Final = 1
CUT: Final = "cut"
"""The end is missing, or the file cannot be unpacked up to it."""
ALTERED: Final = "altered"
"""The lines do not hash to what the last one says, or are not as many."""
ORDER: Final = "order"
"""A posting is not between both checkpoints, or not behind the one before it."""
OPENING: Final = "opening"
"""The accounts in front are not those of the checkpoint that it goes on from."""
GAP: Final = "gap"
"""It does not go on from the archive before it."""
_DOMAIN: Final = "offpath.ledger.archive.v1"


class Standing(Struct, frozen=True, kw_only=True, tag="account", tag_field="type"):
    """The place where an account's chain stood."""

    account: str
    number: int
    head: str
    sum: int
    """Of its entries, debit positive."""
    raised: int

    @property
    def leaf(self) -> Leaf:
        """The same as a checkpoint has it."""
        return Leaf(account=self.account, number=self.number, head=self.head, sum=self.sum)

    def walk(self) -> ChainWalk:
        """A walk of its chain that goes on from here."""
        walk = ChainWalk(self.account)
        walk.number, walk.head = self.number, self.head
        walk.sum, walk.raised = self.sum, self.raised
        return walk


class ArchiveHead(Struct, frozen=True, kw_only=True, tag="archive", tag_field="type"):
    """The first line."""

    format: int = FORMAT
    after: Checkpoint | None = None
    """The checkpoint that it goes on from; None: it begins with the first posting."""
    sealed: Checkpoint
    """The checkpoint that it ends with."""

    @property
    def span(self) -> tuple[int, int]:
        """The numbers of the last posting before it, and of its own last one at most."""
        before = 0 if self.after is None else self.after.posting
        return before or 0, self.sealed.posting or 0


class PostingLine(Struct, frozen=True, kw_only=True, tag="posting", tag_field="type"):
    """A posting with its links."""

    posting: PostingRecord


class ArchiveEnd(Struct, frozen=True, kw_only=True, tag="end", tag_field="type"):
    """The last line, which binds the others."""

    accounts: int
    """The accounts that have a chain at its end."""
    postings: int
    links: int
    sha256: str
    """Of all lines before."""
    closing: str
    """The hash of the accounts as they stand at its end, as the next archive has them in front."""
    kid: str
    signature: str = ""


ArchiveLine = ArchiveHead | Standing | PostingLine | ArchiveEnd
_DECODER: Final[msgspec.json.Decoder[ArchiveLine]] = msgspec.json.Decoder(ArchiveLine)


class ArchiveProof(Struct, frozen=True, kw_only=True):
    """The proof of an archive."""

    after: Checkpoint | None = None
    sealed: Checkpoint | None = None
    """None: not even its first line is there."""
    problems: tuple[str, ...] = ()
    """``cut``, ``altered``, ``signature``, ``order``, ``opening``, ``history`` (the postings do not
    lead to the checkpoint's root), ``gap``.
    """
    breaks: tuple[Break, ...] = ()
    """Accounts whose chain does not hold; at most 100."""
    wrong: tuple[str, ...] = ()
    """Postings that do not balance, or do not hash to their links; at most 100."""
    accounts: int = 0
    postings: int = 0
    links: int = 0

    @property
    def holds(self) -> bool:
        """True if nothing was found."""
        return not (self.problems or self.breaks or self.wrong)


def line_of(line: ArchiveLine) -> bytes:
    """A line as it is written, with its newline."""
    return msgspec.json.encode(line) + b"\n"


def manifest(head: ArchiveHead, end: ArchiveEnd) -> bytes:
    """The bytes that the signature of an archive is over. The domain keeps them apart from what is
    signed of checkpoints.
    """
    before, until = head.span
    return canonical(
        {
            "domain": _DOMAIN,
            "after": None if head.after is None else head.after.id,
            "sealed": head.sealed.id,
            "span": [before, until],
            "accounts": end.accounts,
            "postings": end.postings,
            "links": end.links,
            "sha256": end.sha256,
            "closing": end.closing,
            "kid": end.kid,
        }
    ).encode()


class ArchiveReplay:
    """The replay of an archive's lines, while they are written as well as while they are read."""

    def __init__(self, head: ArchiveHead) -> None:
        self.head = head
        self._last = head.span[0]
        self._hash, self._opening = sha256(line_of(head)), sha256()
        self._opened = Tree(NUMBERED)
        self._walks: dict[str, ChainWalk] = {}
        self._problems: dict[str, None] = {}
        self._breaks: dict[str, Break] = {}
        self._wrong: list[str] = []
        self._postings = self._links = 0
        self._ended = False

    def open(self, standing: Standing, line: bytes) -> None:
        """Take an account as it stood before the first posting."""
        self._hash.update(line)
        self._opening.update(line)
        self._opened.add(standing.leaf)
        self._walks[standing.account] = standing.walk()
        if self._postings:
            self._tell(ORDER)

    def post(self, posting: PostingRecord, line: bytes) -> None:
        """Take the next posting."""
        self._hash.update(line)
        self._postings += 1
        if not self._last < posting.seq <= self.head.span[1]:
            self._tell(ORDER)
        self._last = posting.seq
        try:
            verified(posting)
        except (LedgerError, ValueError) as error:
            self._wrong += [str(error)][: MOST_BREAKS - len(self._wrong)]
        for link in posting.links:
            self._step(link, posting)

    def end(self, kid: str) -> ArchiveEnd:
        """The last line that fits what was taken, without its signature."""
        return ArchiveEnd(
            accounts=len(self._walks),
            postings=self._postings,
            links=self._links,
            sha256=self.sha256,
            closing=self.closing,
            kid=kid,
        )

    def close(self, end: ArchiveEnd, keys: SealVerifier | None) -> None:
        """Take the last line; without ``keys`` no signature is looked at."""
        self._ended = True
        if replace(end, signature="") != self.end(end.kid):
            self._tell(ALTERED)
        if keys is not None and not self._signed(end, keys):
            self._tell(SIGNATURE)

    def cut(self) -> None:
        """There is no last line, or something behind it."""
        self._tell(CUT)

    def standings(self) -> Iterator[Standing]:
        """The place where each chain stands now, by account."""
        for name, walk in sorted(self._walks.items()):
            yield Standing(
                account=name, number=walk.number, head=walk.head, sum=walk.sum, raised=walk.raised
            )

    @property
    def sha256(self) -> str:
        """The hash of all lines but the last, as that one has it."""
        return self._hash.hexdigest()

    @property
    def opening(self) -> str:
        """The hash of the accounts in front."""
        return self._opening.hexdigest()

    @property
    def closing(self) -> str:
        """The hash that an archive has in front which goes on from here."""
        lines = sha256()
        for one in self.standings():
            lines.update(line_of(one))
        return lines.hexdigest()

    def proof(self) -> ArchiveProof:
        """All that was found."""
        if not self._ended:
            self._tell(CUT)
        if self._opened.root() != _signed_root(self.head.after):
            self._tell(OPENING)
        closed = Tree(NUMBERED)
        for one in self.standings():
            closed.add(one.leaf)
        if closed.root() != _signed_root(self.head.sealed):
            self._tell(HISTORY)
        return ArchiveProof(
            after=self.head.after,
            sealed=self.head.sealed,
            problems=tuple(self._problems),
            breaks=tuple(self._breaks.values()),
            wrong=tuple(self._wrong),
            accounts=len(self._walks),
            postings=self._postings,
            links=self._links,
        )

    def _step(self, link: LinkRecord, posting: PostingRecord) -> None:
        self._links += 1
        walk = self._walks.get(link.account)
        if walk is None:
            walk = self._walks[link.account] = ChainWalk(link.account)
        try:
            found = walk.step(link, posting.meta)
        except ValueError:  # a head in front that is none: nothing can be hashed on it
            found = Break(account=link.account, reason=TAMPERED_HASH, posting=posting.id)
        if found is not None and len(self._breaks) < MOST_BREAKS:
            self._breaks.setdefault(link.account, found)

    def _signed(self, end: ArchiveEnd, keys: SealVerifier) -> bool:
        sealed = [one for one in (self.head.after, self.head.sealed) if one is not None]
        try:
            return keys.verify(manifest(self.head, end), end.signature) and all(
                one.v >= NUMBERED and verify_checkpoint(one, keys) for one in sealed
            )
        except (LedgerError, ValueError):
            return False

    def _tell(self, problem: str) -> None:
        self._problems.setdefault(problem)


class ArchiveChain:
    """Archives that follow one another, each replayed in its turn."""

    def __init__(self, keys: SealVerifier | None) -> None:
        self._keys = keys
        self.last: ArchiveReplay | None = None

    def take(self, lines: Iterable[bytes]) -> ArchiveProof:
        """Replay the next archive. Raises ``MalformedOperation`` for what is none."""
        replay = replayed(lines, self._keys)
        if replay is None:
            return ArchiveProof(problems=(CUT,))
        before, self.last = self.last, replay
        proof = replay.proof()
        if before is not None and not _goes_on(before, replay):
            proof = replace(proof, problems=(*proof.problems, GAP))
        return proof


def replayed(lines: Iterable[bytes], keys: SealVerifier | None) -> ArchiveReplay | None:
    """The replay of an archive's lines; None when there are none at all.

    Raises ``MalformedOperation`` for what is not an archive.
    """
    replay: ArchiveReplay | None = None
    ended = False
    for number, line in enumerate(_up_to_cut(lines), start=1):
        if line is None or ended or not line.endswith(b"\n"):
            if replay is not None:
                replay.cut()
            break
        content = _parsed(line, number)
        if (replay is None) != isinstance(content, ArchiveHead):
            raise MalformedOperation(f"line {number}: this is not an archive of a ledger")
        match content:
            case ArchiveHead():
                replay = ArchiveReplay(_readable(content))
            case Standing() if replay is not None:
                replay.open(content, line)
            case PostingLine() if replay is not None:
                replay.post(content.posting, line)
            case ArchiveEnd() if replay is not None:
                ended = True
                replay.close(content, keys)
    return replay


def _up_to_cut(lines: Iterable[bytes]) -> Iterator[bytes | None]:
    """The lines, and None where what packed them ends too early or was altered."""
    try:
        yield from lines
    except (EOFError, zlib.error, BadGzipFile):
        yield None


def _goes_on(before: ArchiveReplay, replay: ArchiveReplay) -> bool:
    """True if an archive begins where the one before it ended, account by account."""
    return replay.head.after == before.head.sealed and replay.opening == before.closing


def _signed_root(checkpoint: Checkpoint | None) -> Root:
    """The root of the accounts at a checkpoint; before the first posting there are none."""
    if checkpoint is None:
        return Tree(NUMBERED).root() or Root("", None, 0)
    return Root(checkpoint.root, checkpoint.sum, checkpoint.count)


def _readable(head: ArchiveHead) -> ArchiveHead:
    if head.format != FORMAT:
        raise MalformedOperation(
            f"the archive is of format {head.format}, and this release reads {FORMAT}"
        )
    return head


def _parsed(line: bytes, number: int) -> ArchiveLine:
    try:
        return _DECODER.decode(line)
    except (ValueError, RecursionError) as error:  # no JSON, of another form, or no UTF-8
        raise MalformedOperation(f"line {number} is not a line of an archive: {error}") from error
