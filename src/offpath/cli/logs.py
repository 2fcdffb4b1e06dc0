"""Log output of the command line. A library never configures logging; a program does."""

from __future__ import annotations

import logging
import sys
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from offpath.cli.output import clean, clean_block, json_line
from offpath.errors import InvalidArgument
from offpath.jobs.client.fates import FATES, OWN_FIELDS, TRACEBACK

_LEAST_TOLD: Final = 4
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


def configure(level: str, style: str) -> None:
    """Send records to standard error, as ``text`` or as ``json``, one a line."""
    number = logging.getLevelNamesMapping().get(level.upper())
    if number is None:
        raise InvalidArgument(f"there is no log level {level!r}: use debug, info, warning or error")
    handler = logging.StreamHandler(sys.stderr)
    lines = _JsonLines() if style == "json" else _TextLines(brief=sys.stderr.isatty())
    handler.setFormatter(lines)
    handler.addFilter(_not_shown_yet)
    logging.basicConfig(level=number, handlers=[handler], force=True)


def _not_shown_yet(record: logging.LogRecord) -> bool:
    """True if no handler of the program's own has written a record to the terminal already.

    A project may give a logger one, as Django does with its own while ``DEBUG`` is on; each record
    of it would be there twice.
    """
    at: logging.Logger | None = logging.getLogger(record.name)
    while at is not None and at.parent is not None:
        if any(_writes(one, record) for one in at.handlers):
            return False
        at = at.parent
    return True


def _writes(handler: logging.Handler, record: logging.LogRecord) -> bool:
    stream = handler.stream if isinstance(handler, logging.StreamHandler) else None
    return (
        stream in {sys.stdout, sys.stderr}
        and record.levelno >= handler.level
        and bool(handler.filter(record))
    )


class _TextLines(logging.Formatter):
    """One line for each record, with its fields behind it; a traceback follows, indented.

    ``brief`` leaves out what the message says already: a terminal is read by a person.

    Names and errors come from jobs. They must not steer the terminal, and no line break of theirs
    may begin what looks like a record of ours.
    """

    def __init__(self, *, brief: bool = False) -> None:
        self._brief = brief
        super().__init__("%(asctime)s %(levelname)-7s %(name)s: %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        fields = _fields(record)
        trace = fields.pop(TRACEBACK, None) or _trace(self, record)
        record.message = record.getMessage()
        if self._brief:
            fields = _untold(fields, record)
        record.asctime = self.formatTime(record)
        line = clean(self.formatMessage(record))
        if fields:
            line += clean(f" [{' '.join(f'{name}={value}' for name, value in fields.items())}]")
        return f"{line}\n  {clean_block(str(trace))}" if trace else line


class _JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **_fields(record),
        }
        if trace := _trace(self, record):
            line["error"] = trace
        return json_line(msgspec.json.encode(line, enc_hook=repr))


def _untold(fields: dict[str, Any], record: logging.LogRecord) -> dict[str, Any]:
    """The fields that the message does not tell. The line of a job's fate is made of its own."""
    fate = record.name == FATES and fields.keys() >= {"job_id", "queue"}
    own = OWN_FIELDS if fate else frozenset[str]()
    return {
        name: value
        for name, value in fields.items()
        if name not in own and not _told(str(value), record.message)
    }


def _told(value: str, message: str) -> bool:
    """True if a message has the value: a short one may stand in it by accident."""
    return len(value) >= _LEAST_TOLD and value in message


def _trace(formatter: logging.Formatter, record: logging.LogRecord) -> str | None:
    return formatter.formatException(record.exc_info) if record.exc_info else None


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    """The fields that were given as ``extra``."""
    return {name: value for name, value in vars(record).items() if name not in _STANDARD}
