"""The Python files below a path, parsed and never imported."""

from __future__ import annotations

import ast
import os
import tokenize
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from offpath.errors import InvalidArgument

_SKIPPED: Final = frozenset({"node_modules", "site-packages", "__pycache__", "venv"})
"""Folders that hold no source of the project, beside those with a dot."""
_LARGEST: Final = 5_000_000
"""Bytes of a file: a larger one is data that somebody named `.py`."""


@dataclass(frozen=True, slots=True)
class SourceModule:
    """One file that was read."""

    file: str
    """Its path, relative to what was scanned."""
    dotted: str
    """Its name as it would be imported from there."""
    tree: ast.Module

    @property
    def package(self) -> str:
        """The package that relative imports start from."""
        return self.dotted if self.file.endswith("__init__.py") else _parent(self.dotted)


@dataclass(frozen=True, slots=True)
class UnreadFile:
    """A file that could not be read, and why."""

    file: str
    reason: str


def modules_below(path: Path) -> tuple[list[SourceModule], list[UnreadFile]]:
    """Read every Python file below a folder, or one file.

    Raises ``InvalidArgument`` where there is nothing, or no Python file.
    """
    if not path.exists():
        raise InvalidArgument(f"there is no file or folder {str(path)!r}")
    root = path if path.is_dir() else path.parent
    files = sorted(_files(path))
    if not files:
        raise InvalidArgument(f"there is no Python file below {str(path)!r}")
    read: list[SourceModule] = []
    unread: list[UnreadFile] = []
    for file in files:
        found = _read(file, root)
        (read if isinstance(found, SourceModule) else unread).append(found)  # type: ignore[arg-type]
    return read, unread


def _files(path: Path) -> Iterator[Path]:
    if path.is_file():
        if path.suffix in {".py", ".pyi"}:
            yield path
        return
    for folder, inner, names in os.walk(path):  # links are not followed: they may lead back
        inner[:] = [one for one in inner if one not in _SKIPPED and not one.startswith(".")]
        yield from (Path(folder, name) for name in names if name.endswith(".py"))


def _read(file: Path, root: Path) -> SourceModule | UnreadFile:
    name = str(file.relative_to(root))
    try:
        if file.stat().st_size > _LARGEST:
            return UnreadFile(name, f"larger than {_LARGEST} bytes")
        with tokenize.open(file) as opened, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of an invalid escape in their source
            tree = ast.parse(opened.read(), name)
    except SyntaxError as error:
        return UnreadFile(name, f"line {error.lineno}: {error.msg}")
    except (OSError, ValueError, RecursionError, MemoryError) as error:
        return UnreadFile(name, f"{type(error).__name__}: {error}")
    parts = file.relative_to(root).with_suffix("").parts
    dotted = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    return SourceModule(name, dotted, tree)


def _parent(dotted: str) -> str:
    return dotted.rpartition(".")[0]
