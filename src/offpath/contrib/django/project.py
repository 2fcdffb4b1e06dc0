"""A Django project as the command line loads an app: ``offpath.contrib.django.project:default``.

Importing it sets Django up by ``DJANGO_SETTINGS_MODULE`` and imports every ``tasks`` module. Each
backend of ``TASKS`` is an attribute, so processes that a worker starts find it too.
"""

from __future__ import annotations

from importlib import import_module

import django
from django.apps import apps
from django.conf import settings
from django.utils.module_loading import autodiscover_modules

from offpath.app import App


def _set_up() -> None:
    if not apps.ready:
        django.setup()
    autodiscover_modules("tasks")
    for backend in getattr(settings, "TASKS", {}).values():
        for module in (backend.get("OPTIONS") or {}).get("imports", ()):
            import_module(module)


_set_up()


def __getattr__(alias: str) -> App:
    from offpath.contrib.django.backend import app_of

    if alias not in getattr(settings, "TASKS", {}):
        raise AttributeError(alias)
    return app_of(alias)
