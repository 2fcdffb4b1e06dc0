"""The entry of ``INSTALLED_APPS``."""

from __future__ import annotations

from importlib import import_module

from django.apps import AppConfig
from django.conf import settings
from django.core import checks


class OffpathConfig(AppConfig):  # type: ignore[misc] # Django ships no types
    """Our app in a project of Django's."""

    name = "offpath.contrib.django"
    label = "offpath"
    verbose_name = "Offpath"

    def ready(self) -> None:
        """Register the check that looks at databases, and Django's own, which asks each backend.

        Django registers its own with the first import of a task, which may be after the checks.
        """
        from offpath.contrib.django.checks import check_schema

        checks.register(check_schema, checks.Tags.database)
        if getattr(settings, "TASKS", None):
            from offpath.contrib.django.names import HOME

            import_module(f"{HOME}.checks")
