"""Retries: policies of jobs, and the state and defaults of :func:`offpath.retry`."""

from offpath.jobs.retry import RetryState, set_retry_defaults
from offpath.model.retry import BackoffKind, RetryPolicy

__all__ = [
    "BackoffKind",
    "RetryPolicy",
    "RetryState",
    "set_retry_defaults",
]
