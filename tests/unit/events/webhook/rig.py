"""A memory store with endpoints, and a receiver that answers as it is told."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from datetime import UTC, datetime

from offpath.events.mover import MoverParts
from offpath.events.webhook.endpoints import Webhooks
from offpath.events.webhook.guard import Guard
from offpath.events.webhook.loops import FanOut, Posting
from offpath.events.webhook.poster import Post, Poster
from offpath.model.effects import Effects
from offpath.model.endpoint import stream_of
from offpath.model.message import MessageFilter, MessageRecord
from offpath.model.new import Box, NewMessage
from offpath.model.webhook import Answer, Delivered
from offpath.runtime.baggage import PLAIN, HeaderRules
from offpath.runtime.clock import ManualClock
from offpath.runtime.ids import new_id
from offpath.store.memory import MemoryStore
from offpath.store.protocol import Store

START = datetime(2026, 1, 1, tzinfo=UTC)


class Receivers:
    """Answers posts by the endpoint's name, and remembers them in their order."""

    def __init__(self) -> None:
        self.answers: dict[str, Callable[[], Answer]] = {}
        self.posts: list[Post] = []

    def answer(self, endpoint: str, answer: Answer) -> None:
        """Give this answer from now on."""
        self.answers[endpoint] = lambda: answer

    async def post(self, post: Post) -> Answer:
        """Answer as was told; 200 else."""
        self.posts.append(post)
        return self.answers.get(post.endpoint.name, Delivered)()

    async def close(self) -> None:
        """Nothing is open."""

    def bodies(self, endpoint: str) -> list[bytes]:
        """The posts to one of them."""
        return [post.body for post in self.posts if post.endpoint.name == endpoint]


class Rig:
    """Everything of webhooks over one store."""

    def __init__(self, *, guard: Guard | None = None, headers: HeaderRules = PLAIN) -> None:
        self.clock = ManualClock(START)
        self.store: Store = MemoryStore(self.clock)
        self.errors: list[BaseException] = []
        self.receivers = Receivers()
        self.poster: Poster = self.receivers
        self.webhooks = Webhooks(self._opened, lambda: guard or Guard(plain_http=True))
        self.webhooks.deliver("default")
        self.fan_out = FanOut(
            lambda: self.webhooks.streams,
            self._parts,
            random=lambda: 0.5,
            keep=86_400.0,
            headers=headers,
        )
        self.posting = Posting(
            self._parts, lambda: self.poster, random=lambda: 0.5, keep=86_400.0 * 40
        )
        self._numbers = itertools.count()

    async def _opened(self) -> Store:
        await self.store.open()
        return self.store

    async def _parts(self) -> MoverParts:
        return MoverParts(
            store=await self._opened(),
            clock=self.clock,
            new_id=new_id,
            report=lambda error, _phase: self.errors.append(error),
        )

    async def publish(self, count: int = 1, *, topic: str = "order.paid") -> list[str]:
        """Publish events; their ids."""
        await self._opened()
        messages = tuple(
            NewMessage(
                id=new_id(),
                box=Box.OUT,
                stream="default",
                topic=topic,
                payload=f'{{"n":{next(self._numbers)}}}',
            )
            for _ in range(count)
        )
        await self.store.commit(Effects(messages=messages))
        return [message.id for message in messages]

    async def run(self) -> None:
        """Plan and post until nothing is due."""
        while (await self.fan_out.run_once(limit=1_000)).total:
            pass
        while (await self.posting.run_once(limit=1_000)).counts.keys() - {"released"}:
            pass

    async def deliveries(self, endpoint: str) -> list[MessageRecord]:
        """The messages for an endpoint, oldest first."""
        where = MessageFilter(box=Box.OUT, streams=(stream_of(endpoint),))
        page = await self.store.find_messages(where, limit=10_000, newest=False)
        return list(page.items)
