"""Logging: the standard library's, under ``offpath.``, never with a job's arguments.

Handlers, levels and formats are the user's. Fields travel as attributes of the record (``extra``).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from offpath.model.redact import SECRET_NAMES, redact, redact_text, redact_url

if TYPE_CHECKING:
    from offpath.runtime.clock import Clock

__all__ = ["Adapter", "RateLimited", "adapter", "bind", "fields", "logger", "redact", "redact_text"]
__all__ += ["redact_url"]

ROOT = "offpath"


class LastWord(logging.NullHandler):
    """A handler that keeps quiet, as a library's should, but not about errors that nobody handles.

    A program that never set up logging would otherwise lose the line that tells of a dead job: that
    goes where the standard library writes what has no handler at all, to standard error.
    """

    def handle(self, record: logging.LogRecord) -> bool:
        """Pass an error on when no handler above would see it."""
        last = logging.lastResort
        if record.levelno >= logging.ERROR and last is not None and not _handled(record.name):
            last.handle(record)
        return True


def _handled(name: str) -> bool:
    """True if a logger has a handler of the program's own, its own or one that is above it."""
    at: logging.Logger | None = logging.getLogger(name)
    while at is not None:
        if any(not isinstance(one, LastWord) for one in at.handlers):
            return True
        at = at.parent if at.propagate else None
    return False


logging.getLogger(ROOT).addHandler(LastWord())

_NO_FIELDS: Mapping[str, Any] = {}
_context: ContextVar[Mapping[str, Any]] = ContextVar("offpath_log_context", default=_NO_FIELDS)
_TAKEN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime"}
"""Attributes that every record has: logging refuses fields of these names."""


class Adapter(logging.LoggerAdapter[logging.Logger]):
    """A logger that gives its records fixed fields and those bound around the call."""

    def __init__(
        self,
        target: logging.Logger,
        fixed: Mapping[str, Any] = _NO_FIELDS,
        secrets: Iterable[str] = SECRET_NAMES,
    ) -> None:
        super().__init__(target, {})
        self._fixed = fixed
        self._secrets = frozenset(secrets)

    def process(
        self, msg: object, kwargs: MutableMapping[str, Any]
    ) -> tuple[object, MutableMapping[str, Any]]:
        """Add the fields; those given with the call win, secrets are hidden."""
        merged = {**_context.get(), **self._fixed, **(kwargs.get("extra") or {})}
        if merged:
            kwargs["extra"] = _presentable(merged, self._secrets)
        return msg, kwargs


def logger(name: str) -> Adapter:
    """The logger ``offpath.<name>``, whose records carry the bound fields."""
    return Adapter(logging.getLogger(f"{ROOT}.{name}"))


def adapter(name: str, fixed: Mapping[str, Any], secrets: Iterable[str] = SECRET_NAMES) -> Adapter:
    """The logger ``offpath.<name>`` with fields of its own; those named as secrets are hidden."""
    return Adapter(logging.getLogger(f"{ROOT}.{name}"), dict(fixed), secrets)


@contextmanager
def bind(**added: object) -> Iterator[None]:
    """Give these fields to every record logged inside, in this task or thread."""
    token = _context.set({**_context.get(), **added})
    try:
        yield
    finally:
        _context.reset(token)


def fields() -> Mapping[str, Any]:
    """The fields bound here."""
    return _context.get()


def _presentable(merged: Mapping[str, Any], secrets: frozenset[str]) -> dict[str, Any]:
    shown: dict[str, Any] = redact(merged, secrets)
    if _TAKEN.isdisjoint(shown):
        return shown
    return {f"{key}_" if key in _TAKEN else key: value for key, value in shown.items()}


class RateLimited:
    """Logs a cause at most once per ``seconds``, and then says how often it was held back.

    For loops that meet the same failure again and again: a store that is gone for an hour makes
    sixty lines and not a million. Remembers the last thousand causes.
    """

    __slots__ = ("_clock", "_logger", "_seconds", "_seen")

    LIMIT = 1000

    def __init__(self, target: Adapter | logging.Logger, clock: Clock, seconds: float = 60) -> None:
        self._logger = target
        self._clock = clock
        self._seconds = seconds
        self._seen: dict[str, tuple[float, int]] = {}

    def log(
        self,
        level: int,
        cause: str,
        message: str,
        *args: object,
        exc_info: BaseException | None = None,
    ) -> bool:
        """Log unless ``cause`` was logged just now; says whether it did."""
        now = self._clock.monotonic()
        last, held = self._seen.pop(cause, (None, 0))
        if last is not None and now - last < self._seconds:
            self._seen[cause] = (last, held + 1)
            return False
        self._seen[cause] = (now, 0)
        if len(self._seen) > self.LIMIT:
            del self._seen[next(iter(self._seen))]
        if held:
            message, args = f"{message} (and %d more like this)", (*args, held)
        self._logger.log(level, message, *args, exc_info=exc_info)
        return True

    def forget(self, cause: str) -> bool:
        """The cause is over: its next occurrence is logged at once. True when it had occurred."""
        return self._seen.pop(cause, None) is not None
