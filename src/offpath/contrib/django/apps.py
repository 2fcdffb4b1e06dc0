"""The entry of ``INSTALLED_APPS``."""

from __future__ import annotations

from django.apps import AppConfig
from django.core import checks


class OffpathConfig(AppConfig):  # type: ignore[misc] # Django ships no types
    """Our app in a project of Django's."""

    name = "offpath.contrib.django"
    label = "offpath"
    verbose_name = "Offpath"

    def ready(self) -> None:
        """Register the check that looks at databases; Django asks each backend for the others."""
        from offpath.contrib.django.checks import check_schema

        checks.register(check_schema, checks.Tags.database)
