"""Celery's code on offpath: change one import, and keep the code.

``from offpath.contrib.celery import Celery, shared_task, chain, group, chord, AsyncResult``. Celery
need not be installed. What the shim cannot do raises :class:`NotInShim`, which names the word here.
"""

from offpath.contrib.celery import exceptions, schedules, signals
from offpath.contrib.celery.application import Celery, shared_task
from offpath.contrib.celery.canvas import Signature, chain, chord, group
from offpath.contrib.celery.current import current_app, current_task, get_task_logger, signature
from offpath.contrib.celery.exceptions import NotInShim
from offpath.contrib.celery.results import AsyncResult, GroupResult
from offpath.contrib.celery.schedules import crontab

__all__ = [
    "AsyncResult",
    "Celery",
    "GroupResult",
    "NotInShim",
    "Signature",
    "chain",
    "chord",
    "crontab",
    "current_app",
    "current_task",
    "exceptions",
    "get_task_logger",
    "group",
    "schedules",
    "shared_task",
    "signals",
    "signature",
]
