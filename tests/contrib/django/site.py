"""A project of Django's for the tests, set up once a process: one backend for each database.

Tests give each alias another database of its own; see ``conftest.py``.
"""

from __future__ import annotations

from typing import Any

import django
from django.conf import settings

from offpath import RetryOptions

SQLITE, POSTGRES = "default", "postgres"
BACKEND = "offpath.contrib.django.OffpathBackend"


def _tasks() -> dict[str, Any]:
    return {
        alias: {
            "BACKEND": BACKEND,
            "QUEUES": ["default", "mail"],
            "OPTIONS": {"database": alias, "settings": {"retry": RetryOptions(attempts=2, base=0)}},
        }
        for alias in (SQLITE, POSTGRES)
    }


def set_up() -> None:
    """Configure Django and set it up, unless it is."""
    if settings.configured:
        return
    settings.configure(
        SECRET_KEY="of the tests",
        INSTALLED_APPS=[
            *(f"django.contrib.{one}" for one in ("admin", "auth", "contenttypes", "sessions")),
            *("django.contrib.messages", "offpath.contrib.django", "django_tasks_db"),
        ],
        MIDDLEWARE=[
            "django.contrib.sessions.middleware.SessionMiddleware",
            "django.contrib.auth.middleware.AuthenticationMiddleware",
            "django.contrib.messages.middleware.MessageMiddleware",
        ],
        TEMPLATES=[
            {
                "BACKEND": "django.template.backends.django.DjangoTemplates",
                "APP_DIRS": True,
                "OPTIONS": {
                    "context_processors": [
                        "django.template.context_processors.request",
                        "django.contrib.auth.context_processors.auth",
                        "django.contrib.messages.context_processors.messages",
                    ]
                },
            }
        ],
        USE_TZ=True,
        TIME_ZONE="Europe/Berlin",
        DATABASES={
            SQLITE: {
                "ENGINE": "django.db.backends.sqlite3",
                "NAME": "/nonexistent/nothing.db",
                "OPTIONS": {"transaction_mode": "IMMEDIATE"},
            },
            POSTGRES: {"ENGINE": "django.db.backends.postgresql", "NAME": "nothing"},
        },
        TASKS=_tasks(),
    )
    django.setup()
