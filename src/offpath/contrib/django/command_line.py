"""Our command line behind ``manage.py``: Django sets the project up, ours does the rest."""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any, ClassVar

from django.core.management.base import BaseCommand, SystemCheckError, handle_default_options

from offpath.contrib.django.checks import worker_messages

PROJECT = "offpath.contrib.django.project"


class PassedOn(BaseCommand):  # type: ignore[misc] # Django ships no types
    """A command whose arguments are those of our own command line.

    Of Django's options it takes ``--settings`` and ``--pythonpath``; ``--backend`` names a backend
    of ``TASKS``.
    """

    requires_system_checks: ClassVar[list[str]] = []
    before: ClassVar[tuple[str, ...]] = ()
    """The words of our command line that this command stands for."""
    checked: ClassVar[bool] = False
    """True if Django's checks run first."""

    def run_from_argv(self, argv: list[str]) -> None:
        """Run what follows the command's name."""
        known, rest = _own_options().parse_known_args(argv[2:])
        handle_default_options(known)
        sys.exit(self._run(known.backend, rest))

    def add_arguments(self, parser: Any) -> None:  # noqa: ANN401 - Django's
        """Take what ``call_command(name, "argument", …)`` gives."""
        parser.add_argument("arguments", nargs=argparse.REMAINDER)
        parser.add_argument("--backend", default="default")

    def handle(self, *_: str, **options: Any) -> None:  # noqa: ANN401 - Django's
        """Run by ``call_command``."""
        self._run(options["backend"], options["arguments"])

    def _run(self, backend: str, arguments: list[str]) -> int:
        from offpath.cli.main import cli
        from offpath.contrib.django.backend import app_of
        from offpath.contrib.django.connection_count import connection_findings
        from offpath.operating.further_checks import check_also

        check_also(connection_findings)
        if self.checked:
            try:
                self.check(include_deployment_checks=False)
            except SystemCheckError as error:
                self.stderr.write(str(error))
                return 1
            for message in worker_messages():
                self.stderr.write(self.style.WARNING(str(message)))
        os.environ["OFFPATH_APP"] = f"{PROJECT}:{backend}"
        os.environ["OFFPATH_URL"] = app_of(backend).settings.url
        try:
            cli([*self.before, *arguments], prog_name="manage.py offpath")
        except SystemExit as end:
            return int(end.code or 0)
        return 0


def _own_options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--settings")
    parser.add_argument("--pythonpath")
    parser.add_argument("--backend", default="default")
    return parser
