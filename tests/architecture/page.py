"""A Markdown page as a program: its fenced blocks run in order, in one namespace.

``python -m tests.architecture.page PAGE`` runs one page in the current folder. What a block is for
stands in a comment on the line before its fence:

``<!-- skip: reason -->``   the block is shown only; ``--skipped`` lists them all
``<!-- file: app.py -->``   the block is written to that file first (and, if ``python``, run as
                           well, but not if ``py``: only its own program can run that)
``<!-- run -->``            the ``$`` lines of a shell block are run and must succeed; what one
                           exports is set for the rest of the page

A Python block may ``await`` at its top level. Line numbers in a traceback are those of the page.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[2]

_FENCE = re.compile(r"^(?P<indent> *)```(?P<kind>[\w-]*)[^\n`]*$")
_EXPORT = re.compile(r"export (?P<name>\w+)=(?P<value>\S+)")
_MARK = re.compile(r"^\s*<!-- (?P<word>skip|file|run)(?:: (?P<value>.+?))? -->\s*$")


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block. ``line`` is the page's line on which its text begins."""

    kind: str
    line: int
    text: str
    mark: str = ""
    value: str = ""


def pages() -> list[Path]:
    """Every page that users read."""
    return [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(text: str) -> list[Block]:
    """The fenced blocks of a page, in order."""
    found: list[Block] = []
    lines = text.splitlines()
    at = 0
    while at < len(lines):
        fence = _FENCE.match(lines[at])
        if fence is None:
            at += 1
            continue
        end = _closing(lines, at + 1)
        indent = len(fence["indent"])
        body = "".join(f"{line[indent:]}\n" for line in lines[at + 1 : end])
        mark = _MARK.match(_line_before(lines, at))
        word, value = (mark["word"], mark["value"] or "") if mark else ("", "")
        found.append(Block(fence["kind"], at + 2, body, word, value))
        at = end + 1
    return found


def _closing(lines: list[str], start: int) -> int:
    for at in range(start, len(lines)):
        if lines[at].strip() == "```":
            return at
    message = f"the block that begins before line {start + 1} is never closed"
    raise ValueError(message)


def _line_before(lines: list[str], at: int) -> str:
    above = [line for line in lines[max(0, at - 2) : at] if line.strip()]
    return above[-1] if above else ""


def prose(text: str) -> str:
    """The page without its fenced blocks."""
    return re.sub(r"^ *```.*?^ *```$", "", text, flags=re.MULTILINE | re.DOTALL)


class Page:
    """Runs the blocks of a page, one after another."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._module = ModuleType("__main__")
        # what looks a class's module up (dataclasses, msgspec) must find the page's names
        sys.modules["__main__"] = self._module

    def run(self, found: list[Block]) -> int:
        """Run what is to be run; returns how many blocks."""
        todo = [block for block in found if runs(block)]
        with asyncio.Runner() as runner:
            for block in todo:
                self._run(block, runner)
        return len(todo)

    def _run(self, block: Block, runner: asyncio.Runner) -> None:
        if block.mark == "file":
            target = Path(block.value)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(block.text, "utf-8")
        if block.kind == "python":
            self._python(block, runner)
        elif block.mark == "run":
            self._shell(block)

    def _python(self, block: Block, runner: asyncio.Runner) -> None:
        padded = "\n" * (block.line - 1) + block.text
        flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        code = compile(padded, self._name, "exec", flags=flags)
        result = eval(code, vars(self._module))
        if inspect.iscoroutine(result):
            runner.run(result)

    def _shell(self, block: Block) -> None:
        commands = [line[2:] for line in block.text.splitlines() if line.startswith("$ ")]
        for command in commands:
            sys.stdout.write(f"$ {command}\n")
            sys.stdout.flush()
            if exported := _EXPORT.fullmatch(command):  # for what stands below, as in one shell
                os.environ[exported["name"]] = exported["value"]
                continue
            subprocess.run(command, shell=True, check=True, stdin=subprocess.DEVNULL)


def runs(block: Block) -> bool:
    """True if a block is carried out."""
    if block.mark == "skip":
        return False
    return block.kind == "python" or block.mark in {"run", "file"}


def skipped() -> list[tuple[str, Block]]:
    """The blocks that are shown only, with the page's name."""
    return [
        (page.relative_to(ROOT).as_posix(), block)
        for page in pages()
        for block in blocks(page.read_text("utf-8"))
        if block.mark == "skip"
    ]


def main(argument: str) -> None:
    """Run a page, or list what is skipped everywhere."""
    if argument == "--skipped":
        for name, block in skipped():
            sys.stdout.write(f"{name}:{block.line} {block.value}\n")
        return
    path = Path(argument)
    Page(str(path)).run(blocks(path.read_text("utf-8")))


if __name__ == "__main__":
    main(sys.argv[1])
