"""The schema that the steps make together, for new files: a tenth of the work of all steps.

Its text, ``baseline/schema.sql``, is written by ``python -m tools.baseline``. The first line names
the steps that it stands for; where one of them has changed since, it is not used.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from functools import lru_cache
from importlib import resources
from typing import Final

from offpath.store.schema import SchemaStep

FILE: Final = resources.files("offpath.store.sqlite") / "baseline" / "schema.sql"
_HEAD: Final = re.compile(r"-- steps: 1 to (?P<last>\d+), (?P<digest>[0-9a-f]{64})\n")


def head(known: Sequence[SchemaStep]) -> str:
    """The first line of a baseline that stands for these steps."""
    return f"-- steps: 1 to {len(known)}, {_digest(known)}\n"


def baseline(known: Sequence[SchemaStep]) -> tuple[Sequence[SchemaStep], str] | None:
    """The first of these steps that the baseline stands for, and its text; None if it does not
    stand for them as they are.
    """
    text = _text()
    found = _HEAD.match(text)
    if found is None:
        return None
    covered = known[: int(found["last"])]
    return (covered, text) if found["digest"] == _digest(covered) else None


@lru_cache(maxsize=1)
def _text() -> str:
    # A checkout may have changed the ends of lines, and the first line must match as it was
    # written.
    return FILE.read_text("utf-8").replace("\r\n", "\n")


def _digest(known: Sequence[SchemaStep]) -> str:
    return hashlib.sha256("".join(one.checksum for one in known).encode()).hexdigest()
