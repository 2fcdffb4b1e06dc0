"""Numbered schema steps: what is shipped, what is applied, and whether the two fit.

Steps are ``NNNN_words.sql`` files in a package, forward-only, numbered from 1 without a gap. A
backend runs the pending ones under its own lock and records number, name and checksum of each;
everything here is pure, so that both SQL backends decide alike.

A step is one transaction, and a transaction that makes an index stops every write of its table. So
there is a second kind, ``NNNN_words.online.sql``: its statements run one by one outside of any
transaction, beside all work. What was cut off is repeated from its beginning, so each of them may
be: it drops first what it makes.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources

from offpath.errors import SchemaChanged, SchemaMissing, SchemaOutdated, SchemaTooNew
from offpath.store.protocol import Migration

_FILE = re.compile(r"(?P<number>\d{4})_(?P<words>[a-z0-9_]+)(?P<online>\.online)?\.sql")
_PIECE = re.compile(
    r"""--[^\n]*|/\*.*?\*/|'(?:[^']|'')*'|"(?:[^"]|"")*"|\$(?P<tag>\w*)\$.*?\$(?P=tag)\$|(?P<end>;)""",
    re.DOTALL,
)
_COMMENT = re.compile(r"--[^\n]*")
_CONCURRENTLY = re.compile(r"\bconcurrently\s+")


@dataclass(frozen=True, slots=True)
class SchemaStep:
    """One shipped schema step. ``checksum`` is over its text as shipped, in hex."""

    number: int
    name: str
    sql: str
    checksum: str
    online: bool = False
    """It runs outside of any transaction, beside all work, and may be repeated."""

    @property
    def within(self) -> str:
        """Its text for a transaction, in which an online one stops writes until that ends."""
        return _CONCURRENTLY.sub("", self.sql) if self.online else self.sql


@lru_cache(maxsize=8)
def steps(package: str) -> tuple[SchemaStep, ...]:
    """The steps shipped in ``package``, in order.

    Raises ``ValueError`` for a file name that is not a step and for numbers with a gap or a double:
    both are mistakes of a release, found by the first test that loads them.
    """
    files = sorted(
        (entry for entry in resources.files(package).iterdir() if entry.name.endswith(".sql")),
        key=lambda entry: entry.name,
    )
    found = tuple(step(entry.name, entry.read_text("utf-8")) for entry in files)
    if [one.number for one in found] != list(range(1, len(found) + 1)):
        raise ValueError(f"{package}: steps must be numbered from 0001 without a gap or a double")
    return found


def step(file_name: str, sql: str) -> SchemaStep:
    """The step in a file. Line ends do not count for the checksum: git may change them."""
    match = _FILE.fullmatch(file_name)
    if match is None:
        raise ValueError(f"{file_name!r} is not named NNNN_words.sql or NNNN_words.online.sql")
    text = sql.replace("\r\n", "\n")
    digest = hashlib.sha256(text.encode()).hexdigest()
    return SchemaStep(
        number=int(match["number"]),
        name=match["words"],
        sql=text,
        checksum=digest,
        online=match["online"] is not None,
    )


def pieces(text: str) -> Iterator[str]:
    """The statements of a step of Postgres, one by one, without what is only a comment.

    Drivers that prepare statements take one at a time. A semicolon within quotes ends none.
    """
    start = 0
    for piece in _PIECE.finditer(text):
        if piece["end"]:
            yield text[start : piece.end()].strip()
            start = piece.end()
    rest = text[start:]
    if _COMMENT.sub("", rest).strip():
        yield rest.strip()


def listing(known: Sequence[SchemaStep], applied: Sequence[Migration]) -> list[Migration]:
    """Every known step, with the time it was applied at or None. Judges nothing."""
    times = {one.number: one.applied_at for one in applied}
    return [
        Migration(
            number=one.number,
            name=one.name,
            checksum=one.checksum,
            applied_at=times.get(one.number),
        )
        for one in known
    ]


def pending(known: Sequence[SchemaStep], applied: Sequence[Migration]) -> list[SchemaStep]:
    """The steps still to be run, in order.

    Raises ``SchemaTooNew`` when the store is ahead of this version, and ``SchemaChanged`` when an
    applied step is not the one shipped; to go on would be a guess in both cases.
    """
    # First, since nobody here knows the checksums of newer steps.
    _refuse_newer(known, applied)
    _refuse_changed(known, applied)
    done = {one.number for one in applied}
    return [one for one in known if one.number not in done]


def require_current(known: Sequence[SchemaStep], applied: Sequence[Migration]) -> None:
    """Raise a ``SchemaError`` kind unless exactly the known steps are applied."""
    left = pending(known, applied)
    if not left:
        return
    if not applied:
        raise SchemaMissing("the database has no offpath tables yet: run `offpath migrate`")
    names = ", ".join(f"{one.number:04}_{one.name}" for one in left)
    raise SchemaOutdated(
        f"the schema is older than this version of offpath: run `offpath migrate` ({names})"
    )


def _refuse_newer(known: Sequence[SchemaStep], applied: Sequence[Migration]) -> None:
    newest = max((one.number for one in applied), default=0)
    if newest > len(known):
        raise SchemaTooNew(
            f"the schema is at step {newest:04}, this version of offpath knows only "
            f"{len(known):04}: upgrade offpath, or point it at another database"
        )


def _refuse_changed(known: Sequence[SchemaStep], applied: Sequence[Migration]) -> None:
    sums = {one.number: one.checksum for one in known}
    for one in applied:
        if sums.get(one.number) != one.checksum:
            raise SchemaChanged(
                f"migration {one.number:04}_{one.name} was applied from another text than the one "
                "shipped: install the release that made this schema, or restore a backup"
            )
