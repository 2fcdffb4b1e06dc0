"""Django: a backend of its Tasks, whose jobs are rows of the caller's transaction.

In the settings::

    INSTALLED_APPS = [..., "offpath.contrib.django"]
    TASKS = {"default": {"BACKEND": "offpath.contrib.django.OffpathBackend"}}

Then ``manage.py migrate`` and ``manage.py offpath_worker``. Django 6 has the Tasks API; with 5.2 it
is that of the package ``django-tasks``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from offpath.errors import MissingExtra

try:
    import django as _django
except ImportError as error:
    raise MissingExtra("offpath.contrib.django needs Django", "django") from error

from offpath.runtime.late import late_names

if TYPE_CHECKING:
    from offpath.contrib.django.backend import OffpathBackend, OffpathTask, app_of
    from offpath.contrib.django.connections import fresh_connections
    from offpath.contrib.django.decorator import task
    from offpath.contrib.django.mounted import dashboard_urls, permitted_rights
    from offpath.contrib.django.settings_module import app_of_settings
    from offpath.contrib.django.sign_in import session_auth

__all__ = [
    "OffpathBackend",
    "OffpathTask",
    "app_of",
    "app_of_settings",
    "dashboard_urls",
    "fresh_connections",
    "permitted_rights",
    "session_auth",
    "task",
]

# Django imports this package before its settings may be read
__getattr__ = late_names(
    __name__,
    {
        "OffpathBackend": "offpath.contrib.django.backend",
        "OffpathTask": "offpath.contrib.django.backend",
        "app_of": "offpath.contrib.django.backend",
        "app_of_settings": "offpath.contrib.django.settings_module",
        "dashboard_urls": "offpath.contrib.django.mounted",
        "permitted_rights": "offpath.contrib.django.mounted",
        "fresh_connections": "offpath.contrib.django.connections",
        "session_auth": "offpath.contrib.django.sign_in",
        "task": "offpath.contrib.django.decorator",
    },
)

del _django
