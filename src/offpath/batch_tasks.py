"""Batch tasks: handlers that take many inputs in one call."""

from offpath.errors import OutputMismatch
from offpath.jobs.define.batch_task import BatchTask
from offpath.jobs.handler.batch_context import BatchContext, BatchItem

__all__ = [
    "BatchContext",
    "BatchItem",
    "BatchTask",
    "OutputMismatch",
]
