"""A feed of the files that a payment processor leaves for us, one for each stretch of time."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from offpath.economy.ledger.reconciliation import Pulled, ReconcileRecord, Window
from offpath.economy.record_format import RecordFormat
from offpath.errors import InvalidArgument
from offpath.model.ledger.faults import ProviderFailed
from offpath.runtime.zones import zone_of

_OURS = RecordFormat()
_EXAMPLE = datetime(2026, 1, 1, tzinfo=UTC)


class FileFeed:
    """A feed for ``Economy(feed=...)`` that reads a processor's files.

    ``path`` names the file of a window by the window's begin and end, as
    ``/settled/{since:%Y-%m-%d}.csv``, in the clock of ``zone``. The ledger's side is its own
    records. A file that is not there yet is asked for again. Raises ``InvalidArgument``.
    """

    def __init__(self, path: str | Path, *, form: RecordFormat = _OURS, zone: str = "UTC") -> None:
        self._path = str(path)
        self._form = form
        self._zone = zone_of(zone)
        try:
            self._path.format(since=_EXAMPLE, until=_EXAMPLE)
        except (KeyError, IndexError, ValueError, AttributeError) as error:
            raise InvalidArgument(
                f"path names {{since}} and {{until}} and nothing else: {self._path!r} ({error})"
            ) from error

    def pull(self, window: Window) -> Pulled:
        """The records of the window's file, which is read as they are taken. Raises
        ``ProviderFailed``, retryable while the file is not there.
        """
        since, until = (one.astimezone(self._zone) for one in (window.since, window.until))
        file = Path(self._path.format(since=since, until=until))
        if not file.exists():
            raise ProviderFailed(f"the processor's file is not there: {file}")
        return Pulled(processor=self._records(file))

    def _records(self, file: Path) -> Iterator[ReconcileRecord]:
        try:
            yield from self._form.read(file)
        except OSError as error:
            raise ProviderFailed(f"the processor's file cannot be read: {error}") from error
        except InvalidArgument as error:
            raise ProviderFailed(f"{file.name}: {error}", retryable=False) from error
