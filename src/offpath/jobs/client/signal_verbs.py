"""``app.signal``: what a waiting handler is told from outside."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from offpath.errors import InvalidArgument, TooLarge
from offpath.model import checks

if TYPE_CHECKING:
    from offpath.config import Settings
    from offpath.runtime.codec import Codec
    from offpath.store.protocol import Store

MOST_UNREAD = 10_000
"""The number of signals of one target that may wait to be taken, by default."""
KEEP = timedelta(days=30)
"""The time for which a signal waits to be taken, by default."""


class SignalVerbs:
    """The verbs of an app for signals."""

    settings: Settings
    _codec: Codec

    if TYPE_CHECKING:

        def new_id(self) -> str:
            """A new id."""
            ...

        async def _opened(self) -> Store: ...

    async def signal(
        self,
        target: Any,  # noqa: ANN401 - a job, a handle, an id or a key
        event: str,
        payload: Any = None,  # noqa: ANN401 - any value that the codec takes
        *,
        id: str | None = None,  # noqa: A002 - the word for it
        keep: float | timedelta = KEEP,
        most_unread: int = MOST_UNREAD,
    ) -> bool:
        """Tell a job that waits with ``ctx.wait_for(event)``: ``app.signal(job, "paid")``.

        ``target`` is a job, a handle, a job's id, or a key that the job waits for with ``key=``.
        One signal ends one wait. When nobody waits yet it is kept for the first that does, up to
        ``keep`` seconds. With an ``id`` (a UUID) it may be sent again: that changes nothing, also
        after it was taken, and returns False.

        That the job exists, or is going to wait, is not checked; ``most_unread`` bounds what may
        gather at a target that takes none: then this raises ``SignalsFull``, and nothing is kept.
        Raises ``InvalidArgument``, ``TooLarge`` (``max_input_bytes``) and ``StoreError`` kinds.
        """
        from offpath.jobs.handler.durable.waits import target_of
        from offpath.model.wait import NewSignal
        from offpath.runtime.ids import parse_id

        known = target if isinstance(target, str) else getattr(target, "id", None)
        if not isinstance(known, str):
            kind = type(target).__name__
            raise InvalidArgument(f"a signal goes to a job, a handle, an id or a key, not {kind}")
        signal = NewSignal(
            id=self.new_id() if id is None else parse_id(id, "a signal's id"),
            target=target_of(known),
            event=checks.name(event, "event"),
            payload=_payload(self._codec, payload, self.settings.max_input_bytes),
            keep=checks.seconds(keep, "keep"),
            most=checks.integer(most_unread, "most_unread", least=1, most=1_000_000),
        )
        return await (await self._opened()).send_signal(signal)


def _payload(codec: Codec, value: object, limit: int) -> str:
    text = codec.encode(value)
    if len(text) * 4 > limit and (size := len(text.encode())) > limit:
        raise TooLarge(
            f"the payload of a signal has {size} bytes, over the limit of {limit} "
            "(max_input_bytes); store the data elsewhere and send a reference to it"
        )
    return text
