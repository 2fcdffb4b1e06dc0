"""``manage.py offpath_worker``: run the tasks of this project until stopped."""

from __future__ import annotations

from offpath.contrib.django.command_line import PassedOn


class Command(PassedOn):
    """The worker, with every app's ``tasks`` module imported and the checks run first."""

    help = "Run the tasks of this project until stopped; options are those of `offpath worker`"
    before = ("worker",)
    checked = True
