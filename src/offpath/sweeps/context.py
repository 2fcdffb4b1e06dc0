"""The context of a sweep's pass, and what it can ask for."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from msgspec import Struct

from offpath.runtime.log import Adapter, adapter


class SweepContext(Struct, frozen=True, kw_only=True, repr_omit_defaults=True):
    """One pass of one sweep. All time decisions of the pass use :attr:`now`.

    Nothing here waits for the end of the pass: what is enqueued or published is committed at once,
    or in your own transaction with ``within=connection``.
    """

    app: Any
    """The :class:`offpath.App`."""
    sweep: str
    """The sweep's name."""
    id: str
    """The pass's id."""
    now: datetime
    """The time when the pass began, in UTC."""

    async def enqueue(self, jobs: Any, /, *, within: object = None) -> Any:  # noqa: ANN401 - the app's
        """Enqueue one job or several; see :meth:`offpath.App.enqueue`."""
        return await self.app.enqueue(jobs, within=within)

    async def publish(self, topic: str, payload: Any = None, **parts: Any) -> Any:  # noqa: ANN401 - the app's
        """Write an event to the outbox; see :meth:`offpath.App.publish`."""
        return await self.app.publish(topic, payload, **parts)

    @property
    def log(self) -> Adapter:
        """A logger whose records carry the sweep and the pass."""
        return adapter("sweep", {"sweep": self.sweep, "pass_id": self.id})
