"""Kafka and SQS: a worker that is killed between the answer and its note of it loses nothing."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Any

import pytest
from aiobotocore.session import get_session
from aiokafka import AIOKafkaConsumer
from moto.server import ThreadedMotoServer

from tests.integration.polling import eventually
from tests.integration.test_dispatch_kafka import Cluster
from tests.integration.test_dispatch_sqs import KEYS, made
from tests.servers import free_port

if TYPE_CHECKING:
    from pathlib import Path

MANY = 25
PROGRAM = """
import asyncio, contextlib, os, signal, sys
import offpath
from offpath.events.dispatchers import KafkaDispatcher, SqsDispatcher
from offpath.extensions import Extension

role, url, kind, place, target, count = sys.argv[1:]


class Killed(Extension):
    '''Ends the process once the broker has confirmed, before anybody has noted that.'''

    @contextlib.contextmanager
    def delivering(self, out):
        yield
        if role == "killed":
            os.kill(os.getpid(), signal.SIGKILL)


if kind != "sqs":
    dispatcher = KafkaDispatcher(place, topic=target, idempotent=kind == "mock cluster")
else:
    keys = dict(aws_access_key_id="me", aws_secret_access_key="s3cret", region_name="eu-central-1")
    dispatcher = SqsDispatcher(target, options={**keys, "endpoint_url": place})
app = offpath.App(url, migrate=True, auto_start=False, extensions=[Killed()])
app.outbox("orders", dispatcher=dispatcher)


async def main():
    async with app:
        if role == "killed":
            async with app.batch() as batch:
                for number in range(int(count)):
                    batch.publish("paid", number, stream="orders", key=str(number % 5))
        async with app.worker():
            await asyncio.Event().wait()

asyncio.run(main())
"""


class KafkaEnd:
    """A topic of Kafka, and what is in it."""

    def __init__(self, kind: str, server: str) -> None:
        self.kind, self.place, self.target = kind, server, f"t{uuid.uuid4().hex}"

    async def bodies(self) -> list[str]:
        """The bodies of all records."""
        consumer = AIOKafkaConsumer(
            self.target,
            bootstrap_servers=self.place,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        await consumer.start()
        try:
            found: list[str] = []
            while batch := await consumer.getmany(timeout_ms=1_000):
                found += [one.value.decode() for several in batch.values() for one in several]
            return found
        finally:
            await consumer.stop()


class SqsEnd:
    """A queue of moto's, and what has come to it."""

    kind = "sqs"

    def __init__(self, client: Any, place: str, queue: str) -> None:
        self._client, self.place, self.target = client, place, queue
        self._found: list[str] = []

    async def bodies(self) -> list[str]:
        """The bodies of all messages so far."""
        while True:
            answer = await self._client.receive_message(
                QueueUrl=self.target, MaxNumberOfMessages=10
            )
            for one in answer.get("Messages", []):
                self._found.append(one["Body"])
                await self._client.delete_message(
                    QueueUrl=self.target, ReceiptHandle=one["ReceiptHandle"]
                )
            if not answer.get("Messages"):
                return self._found


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    made_one = Cluster()
    yield made_one
    made_one.stop()


@pytest.fixture(params=["mock cluster", "broker", "sqs"])
async def end(request: pytest.FixtureRequest) -> AsyncIterator[KafkaEnd | SqsEnd]:
    if request.param == "mock cluster":
        yield KafkaEnd(request.param, request.getfixturevalue("cluster").server)
        return
    if request.param == "broker":
        yield KafkaEnd(request.param, request.getfixturevalue("kafka_broker").server)
        return
    port = free_port()
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=port, verbose=False)
    server.start()
    place = f"http://127.0.0.1:{port}"
    async with get_session().create_client("sqs", **KEYS, endpoint_url=place) as client:
        yield SqsEnd(client, place, await made(client, "orders"))
    server.stop()


def start(role: str, url: str, end: KafkaEnd | SqsEnd, folder: Path) -> subprocess.Popen[bytes]:
    with (folder / f"{role}.log").open("wb") as log:
        return subprocess.Popen(
            [sys.executable, "-c", PROGRAM, role, url, end.kind, end.place, end.target, str(MANY)],
            env={**os.environ, "no_proxy": "127.0.0.1"}, stdout=log, stderr=subprocess.STDOUT,
        )  # fmt: skip


@pytest.mark.timeout(120)
async def test_what_was_sent_and_not_noted_is_sent_again_and_nothing_is_lost(
    end: KafkaEnd | SqsEnd, tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path / 'work.db'}"
    killed = start("killed", url, end, tmp_path)
    code = await asyncio.to_thread(killed.wait, 60)
    assert code == -signal.SIGKILL, (tmp_path / "killed.log").read_text()
    sent = Counter(await end.bodies())
    assert 0 < len(sent) <= MANY, "the broker has confirmed some"
    after = start("after", url, end, tmp_path)
    wanted = {str(number) for number in range(MANY)}
    everything: Counter[str] = Counter()

    async def all_there() -> bool:
        everything.clear()
        everything.update(await end.bodies())
        return set(everything) == wanted and all(everything[one] > sent[one] for one in sent)

    try:
        await eventually(all_there, within=60, what="all are there, and the first ones again")
    finally:
        after.kill()
        after.wait()
    assert max(everything.values()) == 2, "only what was in hand is repeated, once"
