"""Importers: what waits in another queue of the same database, and schedules of Celery's beat.

``offpath import`` is the command. Each job is taken there and enqueued here in one transaction, so
it is in one of the two whatever happens. A job that runs there is left to its worker.
"""

from __future__ import annotations

from offpath.contrib.imports.beat import celery_entries, django_celery_beat, import_schedules
from offpath.contrib.imports.django_tasks import DjangoTasks
from offpath.contrib.imports.jobs import import_jobs
from offpath.contrib.imports.pgqueuer import PgQueuer, pgqueuer_schedules
from offpath.contrib.imports.procrastinate import Procrastinate
from offpath.contrib.imports.report import ImportReport, LeftBehind
from offpath.contrib.imports.tables import open_tables

__all__ = [
    "DjangoTasks",
    "ImportReport",
    "LeftBehind",
    "PgQueuer",
    "Procrastinate",
    "celery_entries",
    "django_celery_beat",
    "import_jobs",
    "import_schedules",
    "open_tables",
    "pgqueuer_schedules",
]
