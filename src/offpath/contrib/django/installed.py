"""Our app in ``INSTALLED_APPS``: without it there are no migrations, no checks and no commands."""

from __future__ import annotations

from typing import Final

from django.apps import apps
from django.core.exceptions import ImproperlyConfigured

APP: Final = "offpath.contrib.django"


def not_installed(place: str) -> str:
    """The sentence about a backend, at its place in the settings, whose app is not there."""
    return (
        f"{place} is a backend of offpath's, and its app is not installed: add {APP!r} to "
        "INSTALLED_APPS, for its migrations, its checks and `manage.py offpath_worker`"
    )


def require_installed(place: str) -> None:
    """Raise ``ImproperlyConfigured`` where the app is not installed.

    A project's checks run without ours then, so a task that is defined says so itself. While
    Django still reads ``INSTALLED_APPS``, nothing is known yet.
    """
    if apps.apps_ready and not apps.is_installed(APP):
        raise ImproperlyConfigured(not_installed(place))
