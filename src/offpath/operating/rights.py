"""Rights: what somebody who is known to an operator's tool may see and do."""

from __future__ import annotations

from enum import StrEnum


class Can(StrEnum):
    """The rights of a viewer."""

    READ = "read"
    """Lists, health, settings."""
    PAYLOAD = "payload"
    """Arguments, results and tracebacks. Without it they are ``hidden``, on each route."""
    ACT = "act"
    """Change jobs, groups, dead letters, messages and letters."""
    OPERATE = "operate"
    """Change queues, limits, schedules, routers, endpoints, findings and workers."""
    ENQUEUE = "enqueue"
    """Make a job of a task."""
    MONEY = "money"
    """Change what an economy does."""
