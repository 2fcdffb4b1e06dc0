"""The engine's side of an app: what its own parts, and what stands on it, ask of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from offpath.errors import InvalidArgument
from offpath.jobs.values.handle import Handle

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Awaitable, Callable, Coroutine

    from offpath.jobs.client.client import Client
    from offpath.jobs.values.services import EventWriter
    from offpath.model.job import Enqueued
    from offpath.store.protocol import Store


@dataclass(slots=True, kw_only=True, eq=False)
class AppCore:
    """One for each app; :func:`core_of` gives it. Users of the app need nothing of it."""

    client: Client
    """Sends, commits and waits."""
    writer: EventWriter
    """Makes events; for parts that write effects themselves."""
    accepted: Callable[[Enqueued], Any]
    """The meaning of the store's answer to an inbound message."""
    report: Callable[[BaseException, str], None]
    """Told of errors that are survived: the app's ``on_error`` and log."""
    opened: Callable[[], Awaitable[Store]]
    """The open store."""
    loop: Callable[[], asyncio.AbstractEventLoop | None]
    """The event loop in which the app is open; None while it is not."""
    new_id: Callable[[], str]
    max_input_bytes: int
    """The largest input, in bytes as it is stored."""
    sweep_added: Callable[[str], None]
    """Told of a sweep that was registered: workers that run already get its loop."""
    swap_store: Callable[..., Callable[[], None]]
    """Puts another store in the place of the app's; see :meth:`offpath.App._swap_store`."""
    send: Callable[..., Coroutine[Any, Any, list[Handle[Any, Any]]]] = field(init=False)
    """Enqueues jobs, or begins one."""
    economies: list[Any] = field(default_factory=list)
    """The economy on the app. It adds itself when it is made: the core does not import it."""

    def __post_init__(self) -> None:
        """Have the client's way at hand: each enqueue takes it."""
        self.send = self.client.send

    def handle(
        self,
        job_id: str,
        decode: Callable[[str | None], Any],
        decode_group: Callable[[str | None], Any] | None = None,
    ) -> Handle[Any, Any]:
        """The handle of a job that was enqueued before; tasks offer it with its type."""
        return Handle(job_id, self.client, decode, decode_group, created=False)

    def add_economy(self, economy: object) -> None:
        """Called by an economy that is made. Raises ``InvalidArgument`` for a second one: both
        would share one ledger with two sets of rules.
        """
        if self.economies:
            raise InvalidArgument("this app has an economy already: use app.economy")
        self.economies.append(economy)


class Cored(Protocol):
    """An app."""

    _core: AppCore


def core_of(app: Cored) -> AppCore:
    """The engine's side of an app."""
    return app._core  # noqa: SLF001 - the one way to it
