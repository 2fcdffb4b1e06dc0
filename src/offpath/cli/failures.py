"""The last error of a job or a message, as text: secrets hidden."""

from __future__ import annotations

from offpath.cli import output
from offpath.cli.values import Part, Quote
from offpath.model.job import Failure
from offpath.model.redact import redact_text
from offpath.operating.documents.jobs import FailureDocument

_SHOWN = 100
"""Characters of an error in a table."""


def failure_cell(failure: Failure | FailureDocument | None) -> str:
    """An error in a table."""
    return redact_text(f"{failure.type}: {failure.message}"[:_SHOWN]) if failure else ""


def failure_parts(failure: Failure) -> list[Part]:
    """An error whole, with its traceback, below an empty line."""
    heading = f"attempt {failure.attempt} failed {output.when(failure.at)} ({failure.kind})"
    shown = failure.traceback or f"{failure.type}: {failure.message}"
    return ["", Quote(heading, redact_text(shown))]
