"""Refs: names of a caller's own for jobs. The id of such a job follows from its ref."""

from __future__ import annotations

from hashlib import sha256
from typing import Final

MARK: Final = "ref:"
"""The beginning of a ref, wherever an id may stand, and of its tag."""


def ref_id(ref: str) -> str:
    """The id of the job of this ref: the same on each machine, in each store."""
    digest = bytearray(sha256(f"{MARK}{ref}".encode()).digest()[:16])
    digest[6] = digest[6] & 0x0F | 0x80  # version 8: made by a rule of our own
    digest[8] = digest[8] & 0x3F | 0x80
    text = digest.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def ref_of(job: str, tags: tuple[str, ...]) -> str | None:
    """The ref of a job by its id and tags; a tag that only looks like one is none."""
    found = (tag.removeprefix(MARK) for tag in tags if tag.startswith(MARK))
    return next((ref for ref in found if ref_id(ref) == job), None)
