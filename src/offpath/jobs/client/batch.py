"""Batches: jobs, events and log entries that are committed together, or not at all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from offpath.errors import InvalidArgument
from offpath.jobs.client.client import as_jobs, effects_of
from offpath.model.effects import Effects

if TYPE_CHECKING:
    from offpath.jobs.client.client import Client, Sent
    from offpath.jobs.values.handle import Handle
    from offpath.jobs.values.services import EventWriter
    from offpath.model.job import Enqueued
    from offpath.model.ledger.decision import LedgerOp
    from offpath.model.ledger.posting import NewPosting
    from offpath.model.new import NewLogEvent, NewMessage


class Batch:
    """The jobs to be committed together. A value until its block ends: nothing is written before.

    Everything is checked when it is added. Ids are known at once; :attr:`handles` are there when
    the block has ended.
    """

    def __init__(self, writer: EventWriter, client: Client) -> None:
        self._writer = writer
        self._client = client
        self._jobs: list[Sent] = []
        self._messages: list[NewMessage] = []
        self._log: list[NewLogEvent] = []
        self._operations: list[LedgerOp] = []
        self._handles: list[Handle[Any, Any]] | None = None
        self._over = False

    def __repr__(self) -> str:
        """Show how much is in it."""
        return f"<Batch jobs={len(self._jobs)} events={len(self._messages)} log={len(self._log)}>"

    def enqueue(self, jobs: Sent | Iterable[Sent], /) -> None:
        """Add jobs, as ``task.job(...)`` makes them, and gates."""
        self._require_open()
        self._jobs.extend(as_jobs(jobs))

    def publish(
        self,
        topic: str,
        payload: object = None,
        *,
        key: str | None = None,
        stream: str = "default",
        headers: Mapping[str, str] | None = None,
    ) -> str:
        """Add an event for the outbox; returns its id."""
        self._require_open()
        made = self._writer.message(topic, payload, key=key, stream=stream, headers=headers)
        self._messages.append(made)
        return made.id

    def append(
        self,
        domain: str,
        type: str,  # noqa: A002 - the log's word
        stream: str,
        payload: object = None,
        *,
        key: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> str:
        """Add an event for the log; returns its id."""
        self._require_open()
        made = self._writer.log_event(domain, type, stream, payload, key=key, headers=headers)
        self._log.append(made)
        return made.id

    def post(self, posting: NewPosting | LedgerOp) -> None:
        """Add a posting of the ledger, or an operation of an economy that was prepared.

        One that the ledger does not take ends the block with its ``LedgerError``, and nothing of
        the batch is written. Raises ``LedgerError`` kinds at once for a posting that cannot be.
        """
        from offpath.model.ledger.plain import operation_of

        self._require_open()
        self._operations.append(operation_of(posting))

    @property
    def jobs(self) -> Sequence[Sent]:
        """The jobs and gates so far."""
        return self._jobs

    @property
    def handles(self) -> list[Handle[Any, Any]]:
        """The handles of the jobs, in the order they were added.

        Raises ``InvalidArgument`` before the block has ended well.
        """
        if self._handles is None:
            raise InvalidArgument("a batch has handles when its block has ended without an error")
        return self._handles

    def close(self) -> Effects:
        """Take nothing more; returns what is to be committed."""
        self._over = True
        effects = effects_of(self._jobs)
        return replace(
            effects,
            messages=tuple(self._messages),
            log=tuple(self._log),
            operations=tuple(self._operations),
        )

    def committed(self, answers: Sequence[Enqueued]) -> None:
        """It was committed, and the store answered this."""
        count = len(effects_of(self._jobs).jobs)
        self._handles = self._client.handles(self._jobs, answers[:count])

    def _require_open(self) -> None:
        if self._over:
            raise InvalidArgument("this batch has ended: make another one")
