"""The names of the semantic conventions for messaging, as of 1.44, where they are in development.

They are written down here because the package that has them is not stable either.
"""

from __future__ import annotations

from typing import Final

SCOPE: Final = "offpath"
SCHEMA_URL: Final = "https://opentelemetry.io/schemas/1.44.0"
SYSTEM: Final = "offpath"

SYSTEM_NAME: Final = "messaging.system"
OPERATION_NAME: Final = "messaging.operation.name"
OPERATION_TYPE: Final = "messaging.operation.type"
DESTINATION: Final = "messaging.destination.name"
MESSAGE_ID: Final = "messaging.message.id"
CONVERSATION: Final = "messaging.message.conversation_id"
BATCH_COUNT: Final = "messaging.batch.message_count"
ERROR_TYPE: Final = "error.type"

TASK: Final = "offpath.task"
ATTEMPT: Final = "offpath.attempt"
OUTCOME: Final = "offpath.outcome"
STEP: Final = "offpath.step"
ROUTER: Final = "offpath.router"
ROUTE: Final = "offpath.route"

CREATE: Final = "create"
SEND: Final = "send"
PROCESS: Final = "process"

SENT: Final = "messaging.client.sent.messages"
CONSUMED: Final = "messaging.client.consumed.messages"
OPERATION_DURATION: Final = "messaging.client.operation.duration"
PROCESS_DURATION: Final = "messaging.process.duration"
DURATION_BOUNDS: Final = (
    *(0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0),
)
"""Seconds: the bounds that the conventions ask for."""
