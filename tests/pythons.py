"""The newest Python on this machine: finding one, for the suites that run on it too.

Like :mod:`tests.servers` it needs nothing but the standard library, for ``check.py``.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

VERSIONS = ("3.14", "3.13")
"""Versions whose packages exist, newest first; ``VARIABLE`` names any other."""
VARIABLE = "OFFPATH_TEST_NEWEST_PYTHON"


class NoPython(Exception):
    """There is none; the text says what to do."""


def newest_python() -> Path:
    """The interpreter that ``VARIABLE`` names, or the newest here. Raises :class:`NoPython`."""
    named = os.environ.get(VARIABLE)
    for candidate in [Path(named)] if named else _candidates(VERSIONS):
        if works(candidate):
            return candidate
    where = named or f"Python {' or '.join(VERSIONS)}"
    raise NoPython(f"{where} does not run here; install it, or name one in {VARIABLE}")


def find_python(version: str) -> Path:
    """An interpreter of this version, as ``3.12``. Raises :class:`NoPython`."""
    for candidate in _candidates([version]):
        if works(candidate):
            return candidate
    raise NoPython(f"Python {version} does not run here; install it")


def _candidates(versions: Iterable[str]) -> Iterator[Path]:
    roots = [Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"]
    for version in versions:
        found = shutil.which(f"python{version}")
        if found:
            yield Path(found)
        for root in roots:
            # a version manager's own folder: its command on the path answers for one version only
            yield from sorted(root.glob(f"{version}.*/bin/python"), reverse=True)


def works(python: Path) -> bool:
    """True if it starts: a version manager's shim may stand for a version that is not chosen."""
    try:
        done = subprocess.run([python, "-c", ""], capture_output=True, timeout=30, check=False)
    except OSError:
        return False
    return done.returncode == 0
