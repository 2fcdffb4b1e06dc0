"""Dispatchers for brokers: NATS JetStream, RabbitMQ, Redis streams, Kafka and SQS.

``from offpath.events.dispatchers import NatsDispatcher``. Each needs its extra
(``pip install 'offpath[nats]'``), which is loaded with the first of its names.
"""

from __future__ import annotations

import importlib
import typing

if typing.TYPE_CHECKING:
    from offpath.events.dispatchers.kafka import KafkaDispatcher
    from offpath.events.dispatchers.link import NotAcknowledged
    from offpath.events.dispatchers.nats import NatsDispatcher
    from offpath.events.dispatchers.rabbitmq import RabbitDispatcher
    from offpath.events.dispatchers.redis import RedisDispatcher
    from offpath.events.dispatchers.sqs import SqsDispatcher

__all__ = [
    "KafkaDispatcher",
    "NatsDispatcher",
    "NotAcknowledged",
    "RabbitDispatcher",
    "RedisDispatcher",
    "SqsDispatcher",
]

_LAZY = {
    "KafkaDispatcher": "offpath.events.dispatchers.kafka",
    "NatsDispatcher": "offpath.events.dispatchers.nats",
    "NotAcknowledged": "offpath.events.dispatchers.link",
    "RabbitDispatcher": "offpath.events.dispatchers.rabbitmq",
    "RedisDispatcher": "offpath.events.dispatchers.redis",
    "SqsDispatcher": "offpath.events.dispatchers.sqs",
}


if not typing.TYPE_CHECKING:  # so that a name that is not there is an error to type checkers

    def __getattr__(name: str) -> object:
        if name not in _LAZY:
            raise AttributeError(
                f"module {__name__!r} has no attribute {name!r}", name=name, obj=None
            )
        value = getattr(importlib.import_module(_LAZY[name]), name)
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
