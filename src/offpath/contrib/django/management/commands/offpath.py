"""``manage.py offpath``: our whole command line on this project's app."""

from __future__ import annotations

from offpath.contrib.django.command_line import PassedOn


class Command(PassedOn):
    """The command line: ``manage.py offpath jobs list``."""

    help = "Offpath's command line on this project's app, as in: manage.py offpath jobs list"
