"""The app of a project that is named by its settings: ``offpath worker --app shop.settings``."""

from __future__ import annotations

import os
from importlib import import_module

from offpath.app import App
from offpath.errors import ConfigurationError

VARIABLE = "DJANGO_SETTINGS_MODULE"


def app_of_settings(name: str, alias: str = "default") -> App:
    """The app of a backend in a module of settings, with the project set up and its tasks imported.

    Raises ``ConfigurationError`` when the environment names other settings.
    """
    if os.environ.setdefault(VARIABLE, name) != name:
        raise ConfigurationError(
            f"{VARIABLE} is {os.environ[VARIABLE]}, and the app is to be that of {name}: "
            "give one of the two"
        )
    found = getattr(import_module("offpath.contrib.django.project"), alias)
    if not isinstance(found, App):
        raise ConfigurationError(f"{name}: {alias!r} names no backend of ours in TASKS")
    return found
