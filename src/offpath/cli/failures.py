"""The last error of a job or a message, as text: secrets hidden."""

from __future__ import annotations

from offpath.cli import output
from offpath.cli.values import Part, Quote
from offpath.model.job import Failure
from offpath.model.redact import redact_text
from offpath.operating.documents.jobs import FailureDocument

_SHOWN = 1000
"""Characters of an error in a table: a terminal cuts it to its width, a pipe has none."""


def failure_cell(failure: Failure | FailureDocument | None) -> str:
    """An error in a table: its first line."""
    if failure is None:
        return ""
    first = failure.message.strip().partition("\n")[0]
    return redact_text(f"{failure.type}: {first}"[:_SHOWN])


def failure_parts(failure: Failure) -> list[Part]:
    """An error whole, with its traceback, below an empty line."""
    heading = f"{failure.headline} {output.when(failure.at)} ({failure.kind})"
    shown = failure.traceback or f"{failure.type}: {failure.message}"
    return ["", Quote(heading, redact_text(shown))]
