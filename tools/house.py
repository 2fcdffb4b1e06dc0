"""The house's figures: how large the store is, what repeats, and what points in a circle.

``python -m tools.house`` prints them for this checkout, ``python -m tools.house FOLDER`` for
another one. ``python -m tools.walk URL`` counts the files that one enqueue passes.
"""

from __future__ import annotations

import ast
import re
import statistics
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

_BLOCK: Final = re.compile(r"^--[ \t]*name:[ \t]*(\S+)", re.MULTILINE)
_HEADLESS: Final = ("What ", "Whether ", "Who ", "How ", "Those ", "That ")
_NOT_WHY: Final = re.compile(r"#\s*(--|noqa|type:|fmt:|pragma)")
_NOT_SQL_WHY: Final = re.compile(r"--\s*(name:|part:|nothing\b|$)")
_BEHIND: Final = re.compile(r"\S  # (?!noqa|type:|fmt:|pragma)")
_WORD: Final = re.compile(r"[a-z_]+")
_LARGE: Final = 480
"""Lines from which on a module presses against its limit of 500."""
_METHOD: Final = re.compile(r"^    async def ([a-z]+_[a-z_]+)\(", re.MULTILINE)
_LINK: Final = re.compile(r"\]\(\.\./src/[^)]+\)")
_DEFINITIONS: Final = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def figures(root: Path) -> dict[str, str]:
    """Each figure of the checkout at ``root``, by its name."""
    package = root / "src" / "offpath"
    texts = {path: path.read_text("utf-8") for path in sorted(package.rglob("*.py"))}
    trees = {path: ast.parse(text) for path, text in texts.items()}
    store = {path: text for path, text in texts.items() if path.is_relative_to(package / "store")}
    written = package / "store" / "sqlite" / "baseline"  # by a tool, from the steps
    statements = sorted(
        path for path in (package / "store").rglob("*.sql") if path.parent != written
    )
    hard = [text for path, text in texts.items() if _is_hard(path.relative_to(package))]
    blocks = [path.read_text("utf-8") for path in statements]
    graph = edges({name_of(path, package.parent): tree for path, tree in trees.items()})
    top = trees[package / "__init__.py"]
    docstrings = [text for tree in trees.values() for text in docstrings_of(tree)]
    headless = [text for text in docstrings if text.startswith(_HEADLESS)]
    return {
        "source: lines of Python": str(_lines(texts.values())),
        "cli: lines of Python": _command_line(package, texts),
        "modules of more than 480 lines": str(
            sum(_lines([one]) > _LARGE for one in texts.values())
        ),
        "store: lines of Python": str(_lines(store.values())),
        "store: files of Python and SQL": f"{len(store)} + {len(statements)}",
        "store: SQL statements named alike": _alike(package / "store"),
        "store: accesses row[n]": str(sum(row_accesses(trees[path]) for path in store)),
        "store: files that name one of its methods": _touched(package / "store", store),
        "files opened for the five questions": str(opened(root / "docs" / "architecture.md")),
        "import circles, type-only imports too": str(len(circles(graph))),
        "top-level names": str(len(exported(top))),
        "class names used more than once": str(len(repeated_classes(trees.values()))),
        "docstrings without a noun first": f"{len(headless)} of {len(docstrings)}",
        "comment lines that say why": _share(texts.values()),
        "  in store/ and jobs/worker/": _share(hard),
        "  there, with those behind code": _share(hard, count=said_lines),
        "  there, with the SQL statements": _share(hard, blocks, count=said_lines),
    }


def _command_line(package: Path, texts: Mapping[Path, str]) -> str:
    """The lines of the command line: the core's and the economy's."""
    folders = package / "cli", package / "economy" / "cli"
    parts = [
        [text for path, text in texts.items() if path.is_relative_to(each)] for each in folders
    ]
    return " + ".join(str(_lines(part)) for part in parts)


def _is_hard(path: Path) -> bool:
    """True for the files whose locks, orders and bounds need a reason."""
    return path.parts[0] == "store" or path.parts[:2] == ("jobs", "worker")


def name_of(path: Path, above: Path) -> str:
    """The dotted name of a module."""
    parts = path.relative_to(above).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def edges(trees: Mapping[str, ast.Module]) -> dict[str, set[str]]:
    """The modules that each imports, in whatever place."""
    found: dict[str, set[str]] = {name: set() for name in trees}
    for name, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                named = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module:
                inner = [f"{node.module}.{alias.name}" for alias in node.names]
                named = [one if one in trees else node.module for one in inner]
            else:
                continue
            found[name] |= {one for one in named if one in trees and one != name}
    return found


def circles(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """The groups of modules that reach each other."""
    reach = {name: _reachable(name, graph) for name in graph}
    groups = {
        tuple(sorted({name, *(other for other in ahead if name in reach[other])}))
        for name, ahead in reach.items()
        if name in ahead
    }
    return [list(group) for group in sorted(groups)]


def _reachable(start: str, graph: Mapping[str, set[str]]) -> set[str]:
    seen: set[str] = set()
    ahead = list(graph[start])
    while ahead:
        name = ahead.pop()
        if name not in seen:
            seen.add(name)
            ahead.extend(graph[name])
    return seen


def row_accesses(tree: ast.Module) -> int:
    """The number of times that a row's column is named by a number."""
    return sum(
        isinstance(node, ast.Subscript)
        and isinstance(node.value, ast.Name)
        and node.value.id == "row"
        and not isinstance(node.slice, ast.Name)
        for node in ast.walk(tree)
    )


def repeated_classes(trees: Iterable[ast.Module]) -> list[str]:
    """The names that several classes have."""
    names = Counter(
        node.name for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef)
    )
    return sorted(name for name, number in names.items() if number > 1)


def docstrings_of(tree: ast.Module) -> list[str]:
    """The docstrings of a module and of what it defines."""
    found = [ast.get_docstring(node) for node in ast.walk(tree) if isinstance(node, _DEFINITIONS)]
    return [text for text in found if text]


def exported(tree: ast.Module) -> list[str]:
    """The names in the ``__all__`` of a module, as far as it is written out."""
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else []
        if any(isinstance(target, ast.Name) and target.id == "__all__" for target in targets):
            return [
                one.value
                for one in ast.walk(node)
                if isinstance(one, ast.Constant) and isinstance(one.value, str)
            ]
    return []


def why_lines(text: str) -> int:
    """Lines that are a comment, ruled lines and notes to tools left out."""
    lines = [line.strip() for line in text.splitlines()]
    return sum(line.startswith("#") and not _NOT_WHY.match(line) for line in lines)


def sql_why_lines(text: str) -> int:
    """Lines of SQL that are a comment, names of blocks and empty statements left out."""
    lines = [line.strip() for line in text.splitlines()]
    return sum(line.startswith("--") and not _NOT_SQL_WHY.match(line) for line in lines)


def said_lines(text: str) -> int:
    """Lines with a comment, those behind code included; ruled lines and notes to tools left out.

    Behind code a comment stands after two spaces, as the formatter has it.
    """
    return why_lines(text) + len(_BEHIND.findall(text))


def _touched(folder: Path, sources: Mapping[Path, str]) -> str:
    """The files of the store that name one of its methods: the median of methods of two words."""
    texts = [*sources.values(), *(path.read_text("utf-8") for path in folder.glob("*/*.sql"))]
    words = [set(_WORD.findall(text)) for text in texts]
    parts = [path.read_text("utf-8") for path in folder.glob("*.py")]
    methods = {name for text in parts for name in _METHOD.findall(text)}
    counts = [sum(name in some for some in words) for name in methods]
    return f"{statistics.median(counts):.0f} (median of {len(counts)})"


def opened(page: Path) -> int:
    """The files of the table of the five questions, counted for each question anew."""
    _, _, part = page.read_text("utf-8").partition("## Where it is decided\n")
    return len(_LINK.findall(part.partition("\n## ")[0]))


def _share(
    texts: Iterable[str], statements: Iterable[str] = (), *, count: Callable[[str], int] = why_lines
) -> str:
    texts, statements = list(texts), list(statements)
    whys = sum(map(count, texts)) + sum(map(sql_why_lines, statements))
    total = _lines(texts) + _lines(statements)
    return f"{whys} of {total} ({100 * whys / total:.2f} %)"


def _lines(texts: Iterable[str]) -> int:
    return sum(text.count("\n") for text in texts)


def _alike(store: Path) -> str:
    postgres, sqlite = (_names(store / each) for each in ("postgres", "sqlite"))
    return f"{len(postgres & sqlite)} of {len(postgres)} and {len(sqlite)}"


def _names(folder: Path) -> set[str]:
    texts = [path.read_text("utf-8") for path in folder.glob("*.sql")]
    return {name for text in texts for name in _BLOCK.findall(text)}


def main(arguments: list[str]) -> None:
    """Print the figures."""
    root = Path(arguments[0]) if arguments else Path(__file__).resolve().parents[1]
    for name, value in figures(root).items():
        print(f"{name:<42}{value}")


if __name__ == "__main__":
    main(sys.argv[1:])
