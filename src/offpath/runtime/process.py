"""Facts about processes: of another one of this machine, and of how this one was started."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

_WITH_VALUE: Final = frozenset({"-X", "-W", "--check-hash-based-pycs"})
"""Options of the interpreter whose value may stand apart."""
_STOPPED: Final = frozenset("Tt")
"""Stopped by a signal, or by a debugger."""


def stopped(pid: int) -> bool:
    """True if a process is there and stands still; False where that cannot be told."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return False
    # the name of the program stands before it in brackets, and may hold any byte
    state = stat.rpartition(b")")[2].split(maxsplit=1)
    return bool(state) and state[0].decode("ascii", "replace") in _STOPPED


def interpreter_options(command: Sequence[str]) -> list[str]:
    """The options of the interpreter in its own command line (``sys.orig_argv``), as ``-X dev``."""
    options: list[str] = []
    rest = iter(command[1:])
    for one in rest:
        if not one.startswith("-") or one == "-":
            break
        kept, ends = _until_program(one)
        options += [kept] * bool(kept)
        if ends:
            break
        if one in _WITH_VALUE:
            options.append(next(rest, ""))
    return options


def _until_program(one: str) -> tuple[str, bool]:
    """An option, and whether the program is named behind it: ``-Im`` is ``-I``, then ``-m``."""
    if one.startswith(("--", "-X", "-W")):
        return one, False
    for at, letter in enumerate(one):
        if letter in "cm":
            return (one[:at] if at > 1 else ""), True
    return one, False
