"""Code blocks that are no whole file: what they lack, and the comment that says so."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator

from tests.architecture.page import Block

CONTINUES = "# continues the block above"
IN_MAIN = f"{CONTINUES}; what awaits belongs in its main()"
TO_WRAP = "async def main() around what awaits, and asyncio.run(main())"
"""The lack of a block that is whole but for this: no comment makes a file of it."""

_AWAITING = (ast.Await, ast.AsyncWith, ast.AsyncFor)
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


def remark(block: Block) -> str | None:
    """The first line that the block needs; None for one that runs as a file."""
    tree = ast.parse(block.text)
    awaits = any(isinstance(node, _AWAITING) for node in _outside(tree))
    if _used(tree) - _bound(tree) - set(dir(builtins)) - {"__file__"}:
        return IN_MAIN if awaits else CONTINUES
    return TO_WRAP if awaits else None


def _outside(tree: ast.AST) -> Iterator[ast.AST]:
    """The nodes that no function and no class holds."""
    for child in ast.iter_child_nodes(tree):
        if not isinstance(child, _SCOPES):
            yield child
            yield from _outside(child)


def _used(tree: ast.AST) -> set[str]:
    nodes = (node for node in ast.walk(tree) if isinstance(node, ast.Name))
    return {node.id for node in nodes if isinstance(node.ctx, ast.Load)}


def _bound(tree: ast.AST) -> set[str]:
    """Every name that the block gives a value, wherever in it."""
    return {name for node in ast.walk(tree) for name in _names(node)}


def _names(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Name(id=name, ctx=ast.Store()):
            yield name
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.arg(arg=name) | ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)):
            yield name
        case ast.alias(name=name, asname=given):
            yield (given or name).partition(".")[0]
        case _:
            pass
