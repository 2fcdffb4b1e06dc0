"""The project's own source, parsed: what the tidiness tests look at.

``python -m tests.architecture.sources`` prints the sizes of functions and modules.
"""

from __future__ import annotations

import ast
import gc
import statistics
import sys
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "offpath"

_AnyFunction = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Source:
    """One Python file."""

    path: Path
    text: str

    @property
    def tree(self) -> ast.Module:
        """It, parsed."""
        return _trees()[self.path]

    @cached_property
    def nodes(self) -> tuple[ast.AST, ...]:
        """Its nodes, walked once for all who ask."""
        return tuple(ast.walk(self.tree))

    @property
    def name(self) -> str:
        """Its path from the root of the project."""
        return self.path.relative_to(ROOT).as_posix()

    @property
    def lines(self) -> int:
        """Its length."""
        return self.text.count("\n")


@dataclass(frozen=True, slots=True)
class Function:
    """One function or method, nested ones too. ``lines`` leaves out the docstring."""

    place: str
    lines: int


@cache
def project() -> tuple[Source, ...]:
    """Every Python file of the project."""
    folders = ("src", "tests", "tools", "benchmarks", "examples")
    paths = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    files = sorted([*paths, *ROOT.glob("*.py")])
    return tuple(Source(path, path.read_text("utf-8")) for path in files)


@cache
def _trees() -> dict[Path, ast.Module]:
    """Every file of the project, parsed in one go when the first is asked for.

    The collector would walk the trees of before again and again while the next one grows, which
    takes more time than the parsing: so it pauses, and leaves them alone afterwards.
    """
    collects = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        return {source.path: ast.parse(source.text, source.name) for source in project()}
    finally:
        gc.freeze()
        if collects:
            gc.enable()


def package() -> tuple[Source, ...]:
    """Every Python file that is shipped."""
    return tuple(source for source in project() if source.path.is_relative_to(PACKAGE))


def tests() -> tuple[Source, ...]:
    """Every Python file below ``tests``."""
    return tuple(source for source in project() if source.name.startswith("tests/"))


def functions(source: Source) -> Iterator[Function]:
    """The functions of a file."""
    for node in source.nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            place = f"{source.name}:{node.lineno} {node.name}"
            yield Function(place, _length(node))


def _length(function: _AnyFunction) -> int:
    total = (function.end_lineno or function.lineno) - function.lineno + 1
    if ast.get_docstring(function, clean=False) is None:
        return total
    docstring = function.body[0]
    return total - ((docstring.end_lineno or docstring.lineno) - docstring.lineno + 1)


def calls(source: Source) -> Iterator[tuple[str, ast.Call]]:
    """Every call with the dotted name that is called: ``("asyncio.sleep", call)``."""
    for node in source.nodes:
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func), node


def imports(source: Source) -> Iterator[str]:
    """The full names of the modules that a file imports, relative imports left out."""
    for node in source.nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


def report() -> str:
    """The sizes that count, and the longest of each kind."""
    sizes = sorted((size for s in package() for size in functions(s)), key=lambda f: -f.lines)
    modules = sorted(package(), key=lambda source: -source.lines)
    lines = [size.lines for size in sizes]
    head = (
        f"{len(lines)} functions: median {statistics.median(lines):.0f}, "
        f"p95 {statistics.quantiles(lines, n=20)[-1]:.0f} lines"
    )
    longest = [f"  {size.lines:>4} {size.place}" for size in sizes[:10]]
    largest = [f"  {source.lines:>4} {source.name}" for source in modules[:10]]
    return "\n".join([head, *longest, f"{len(modules)} modules", *largest])


if __name__ == "__main__":
    sys.stdout.write(report() + "\n")
