"""The options of the interpreter, as its own command line has them."""

from __future__ import annotations

import pytest

from offpath.runtime.process import interpreter_options


@pytest.mark.parametrize(
    ("command", "options"),
    [
        ("python -m offpath worker -X", ""),
        ("python -X dev -W error -m offpath worker", "-X dev -W error"),
        ("python -Xdev -Werror offpath worker", "-Xdev -Werror"),
        ("python -I -u script.py -B", "-I -u"),
        ("python -Im offpath", "-I"),
        ("python -c code -O", ""),
        ("python -", ""),
        ("python --check-hash-based-pycs always -m offpath", "--check-hash-based-pycs always"),
        ("python", ""),
    ],
)
def test_they_end_where_the_program_is_named(command: str, options: str) -> None:
    assert interpreter_options(command.split()) == options.split()
