"""The origins of names in a module: what its imports and definitions call what."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from offpath.contrib.celery.source_tree import SourceModule

_CELERY: Final = "celery"
_SHARED: Final = frozenset({"celery.shared_task", "celery.app.shared_task"})
_APPS: Final = frozenset({"celery.Celery", "celery.app.Celery", "celery.app.base.Celery"})
_CURRENT: Final = frozenset({"celery.current_app", "celery._state.current_app"})


class ModuleNames:
    """Local names of a module, each with its dotted origin."""

    def __init__(self, module: SourceModule) -> None:
        self._module = module
        self._origins: dict[str, str] = {}
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Import | ast.ImportFrom):
                self._origins.update(imported(module, node))

    def of(self, node: ast.AST) -> str | None:
        """The dotted origin of a name or an attribute; None for other expressions."""
        if isinstance(node, ast.Name):
            return self._origins.get(node.id, f"{self._module.dotted}.{node.id}")
        if isinstance(node, ast.Attribute) and (inner := self.of(node.value)) is not None:
            return f"{inner}.{node.attr}"
        return None


def imported(module: SourceModule, node: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, str]]:
    """Local names that an import makes, each with its origin."""
    if isinstance(node, ast.Import):
        for one in node.names:
            yield (one.asname, one.name) if one.asname else (_first(one.name), _first(one.name))
        return
    source = source_of(module, node)
    for one in node.names:
        yield one.asname or one.name, f"{source}.{one.name}"


def source_of(module: SourceModule, node: ast.ImportFrom) -> str:
    """The module that a ``from`` import names, absolute."""
    if not node.level:
        return node.module or ""
    parts = module.package.split(".") if module.package else []
    kept = parts[: len(parts) - (node.level - 1)] if node.level > 1 else parts
    return ".".join((*kept, *(node.module.split(".") if node.module else ())))


@dataclass(slots=True)
class KnownNames:
    """The Celery apps, the tasks and the modules of settings that a whole tree defines."""

    apps: list[str] = field(default_factory=list)
    tasks: list[str] = field(default_factory=list)
    settings: set[str] = field(default_factory=set)
    """Modules that `config_from_object` names."""
    namespaced: bool = False
    """True if some app reads settings that begin with ``CELERY_``."""
    mentioned: bool = False
    """True if anything imports Celery."""

    def is_app(self, origin: str | None) -> bool:
        """True for an app of the tree, however the module that it is in is called."""
        return origin in _CURRENT or _is_one_of(origin, self.apps)

    def is_task(self, origin: str | None) -> bool:
        """True for a task of the tree."""
        return _is_one_of(origin, self.tasks)

    def makes_tasks(self, origin: str | None) -> bool:
        """True for what a task is decorated with."""
        if origin is None:
            return False
        owner, _, method = origin.rpartition(".")
        return origin in _SHARED or (method == "task" and self.is_app(owner))


def makes_apps(origin: str | None) -> bool:
    """True for the class of Celery's apps."""
    return origin in _APPS


def known_names(modules: Iterable[SourceModule]) -> KnownNames:
    """Look through a whole tree for what its modules define for each other."""
    read = [(module, ModuleNames(module)) for module in modules]
    known = KnownNames()
    for module, names in read:
        _find_apps(module, names, known)
    for module, names in read:
        _find_tasks(module, names, known)
    return known


def _find_apps(module: SourceModule, names: ModuleNames, known: KnownNames) -> None:
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            origins = [origin for _, origin in imported(module, node)]
            known.mentioned |= any(_first(origin) == _CELERY for origin in origins)
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            if makes_apps(names.of(node.value.func)):
                known.apps += [origin for one in node.targets if (origin := names.of(one))]
        elif isinstance(node, ast.Call) and _method(node) == "config_from_object":
            _find_settings(node, known)


def _find_settings(node: ast.Call, known: KnownNames) -> None:
    if any(one.arg == "namespace" for one in node.keywords):
        known.namespaced = True
    elif node.args and isinstance(node.args[0], ast.Constant):
        known.settings.add(str(node.args[0].value))


def _find_tasks(module: SourceModule, names: ModuleNames, known: KnownNames) -> None:
    for node in ast.walk(module.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            called = (one.func if isinstance(one, ast.Call) else one for one in node.decorator_list)
            if any(known.makes_tasks(names.of(one)) for one in called):
                known.tasks.append(f"{module.dotted}.{node.name}")


def _method(node: ast.Call) -> str | None:
    return node.func.attr if isinstance(node.func, ast.Attribute) else None


def _is_one_of(origin: str | None, known: list[str]) -> bool:
    """True if they end alike: a folder that is scanned may be inside of its package or above it."""
    if origin is None:
        return False
    return any(
        origin == one or origin.endswith(f".{one}") or one.endswith(f".{origin}") for one in known
    )


def _first(dotted: str) -> str:
    return dotted.partition(".")[0]
