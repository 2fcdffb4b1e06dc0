"""Log output of the command line. A library never configures logging; a program does."""

from __future__ import annotations

import logging
import sys
from datetime import UTC, datetime
from typing import Any

import msgspec

from offpath.cli.output import clean, clean_block
from offpath.errors import InvalidArgument

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


def configure(level: str, style: str) -> None:
    """Send records to standard error, as ``text`` or as ``json``, one a line."""
    number = logging.getLevelNamesMapping().get(level.upper())
    if number is None:
        raise InvalidArgument(f"there is no log level {level!r}: use debug, info, warning or error")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JsonLines() if style == "json" else _TextLines())
    logging.basicConfig(level=number, handlers=[handler], force=True)


class _TextLines(logging.Formatter):
    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(name)s: %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        # Names and errors come from jobs: they must not steer the terminal.
        text = clean_block(super().format(record))
        fields = " ".join(f"{name}={value}" for name, value in _fields(record).items())
        first, *rest = text.split("\n")
        return "\n".join([f"{first} [{clean(fields)}]" if fields else first, *rest])


class _JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **_fields(record),
        }
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return msgspec.json.encode(line, enc_hook=repr).decode()


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    """What was given as ``extra``."""
    return {name: value for name, value in vars(record).items() if name not in _STANDARD}
