"""The scan of a code base that uses Celery: each place, and what becomes of it."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from offpath.contrib.celery import catalogue
from offpath.contrib.celery.beat_entries import beat_entries
from offpath.contrib.celery.catalogue import Counterpart, Meaning, Words
from offpath.contrib.celery.names import KnownNames, ModuleNames, known_names, makes_apps, source_of
from offpath.contrib.celery.settings_catalogue import SETTINGS, setting_of
from offpath.contrib.celery.source_tree import SourceModule, UnreadFile, modules_below
from offpath.contrib.celery.waits import SOFT

_UNKNOWN: Final = Counterpart(
    Meaning.ABSENT, "nothing here is like it: docs/integrations/celery.md"
)
_JSON: Final = Counterpart(Meaning.SAME, "not needed: JSON only")
_SERIALIZERS: Final = frozenset({"serializer", "task_serializer", "result_serializer"})
_ASYNC: Final = Counterpart(
    Meaning.CHANGED, "runs in the worker's event loop: await native verbs in it, not delay()"
)
_SOFT: Final = Counterpart(
    Meaning.CHANGED, "raised where the task waits; natively timeout= and asyncio.timeout()"
)
_REQUEST: Final = frozenset(
    {"id", "retries", "headers", "args", "kwargs", "root_id", "parent_id", "delivery_info", "task"}
)
_ENQUEUES: Final = frozenset(
    {"delay", "apply_async", "delay_on_commit", "apply_async_on_commit", "send_task"}
)
_MAKES_RESULTS: Final = _ENQUEUES | {"AsyncResult"}


class ScannedPlace(Struct, frozen=True, kw_only=True):
    """One place of the code, and what becomes of it."""

    file: str
    line: int
    kind: str
    """``app``, ``task``, ``option``, ``call``, ``canvas``, ``result``, ``beat``, ``setting``,
    ``signal`` or ``import``."""
    name: str
    meaning: Meaning
    text: str


class ScanReport(Struct, frozen=True, kw_only=True):
    """All places of a code base, by file and line."""

    files: int
    """The number of Python files that were read."""
    places: Sequence[ScannedPlace]
    unread: Sequence[UnreadFile]

    def count(self, meaning: Meaning) -> int:
        """The number of places with a meaning."""
        return sum(one.meaning is meaning for one in self.places)


def scan(path: Path) -> ScanReport:
    """Read a code base without importing it. Raises ``InvalidArgument`` for a path of no Python."""
    modules, unread = modules_below(path)
    known = known_names(modules)
    places = [place for module in modules for place in _places(module, known)]
    places.sort(key=lambda one: (one.file, one.line))
    return ScanReport(files=len(modules), places=places, unread=unread)


def _places(module: SourceModule, known: KnownNames) -> list[ScannedPlace]:
    reader = _ModuleReader(module, known)
    reader.visit(module.tree)
    return reader.places


class _ModuleReader(ast.NodeVisitor):
    """Walks one module and notes what is Celery's."""

    def __init__(self, module: SourceModule, known: KnownNames) -> None:
        self.places: list[ScannedPlace] = []
        self._module = module
        self._known = known
        self._names = ModuleNames(module)
        self._bound: list[str] = []
        """First parameters of the bound tasks that the walk is in."""
        self._results: set[str] = set()
        """Local names that hold results."""

    # -- imports -------------------------------------------------------------------------------

    def visit_Import(self, node: ast.Import) -> None:
        for one in node.names:
            if (found := _module_word(one.name)) is not None:
                self._note(node, "import", one.name, found)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        if node.level:
            return  # a module of their own, which may be called celery
        source = source_of(self._module, node)
        for one in node.names:
            self._note_import(node, source, one.name)

    def _note_import(self, node: ast.AST, source: str, name: str) -> None:
        if (found := _module_word(f"{source}.{name}")) is not None:
            self._note(node, "import", f"{source}.{name}", found)
        elif source == "celery.signals":
            self._note(node, "signal", name, catalogue.SIGNALS.get(name, _UNKNOWN))
        elif source.partition(".")[0] == "celery" and name not in {*catalogue.CANVAS, "signals"}:
            found = catalogue.IMPORTS.get(name, _UNKNOWN)
            if found.meaning is not Meaning.SAME:
                self._note(node, "import", name, found)

    # -- definitions ---------------------------------------------------------------------------

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._definition(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self._definition(node)

    def _definition(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        bound = False
        for one in node.decorator_list:
            called = one.func if isinstance(one, ast.Call) else one
            if self._known.makes_tasks(self._names.of(called)):
                bound = self._task(node, one)
            else:
                self.visit(one)
        self._bound += [node.args.args[0].arg] if bound and node.args.args else []
        for part in (node.args, *node.body):
            self.visit(part)
        if bound and node.args.args:
            self._bound.pop()

    def _task(self, node: ast.FunctionDef | ast.AsyncFunctionDef, made: ast.expr) -> bool:
        native = Counterpart(Meaning.SAME, f'@app.task(name="...{node.name}")')
        asynchronous = isinstance(node, ast.AsyncFunctionDef)
        self._note(node, "task", node.name, _ASYNC if asynchronous else native)
        given = made.keywords if isinstance(made, ast.Call) else []
        words = {**catalogue.TASK_OPTIONS, SOFT: _SOFT} if asynchronous else catalogue.TASK_OPTIONS
        self._options(given, words, "@task")
        return any(one.arg == "bind" and _truth(one.value) for one in given)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for base in node.bases:
            origin = self._names.of(base) or ""
            owner, _, last = origin.rpartition(".")
            if last == "Task" and (owner.startswith("celery") or self._known.is_app(owner)):
                self._note(node, "task", node.name, catalogue.IMPORTS["Task"])
        self.generic_visit(node)

    # -- settings and the beat -----------------------------------------------------------------

    def visit_Assign(self, node: ast.Assign) -> None:
        for target in node.targets:
            if (setting := self._setting(target)) is not None:
                self._note_setting(target, setting, node.value)
            elif isinstance(target, ast.Subscript) and self._setting(target.value):
                self._note_beat(node.value, _text(target.slice) or "?")
            elif isinstance(target, ast.Name) and self._is_result(node.value):
                self._results.add(target.id)
        self.visit(node.value)

    def _setting(self, target: ast.expr) -> str | None:
        if isinstance(target, ast.Attribute) and self._is_conf(target.value):
            return target.attr
        if isinstance(target, ast.Subscript) and self._is_conf(target.value):
            return _text(target.slice)
        if isinstance(target, ast.Name) and self._holds_settings(target.id):
            return setting_of(target.id)
        return None

    def _holds_settings(self, name: str) -> bool:
        named = any(
            one == self._module.dotted or one.endswith(f".{self._module.dotted}")
            for one in self._known.settings
        )
        return named or (self._known.namespaced and name.startswith("CELERY_"))

    def _is_conf(self, node: ast.expr) -> bool:
        if not isinstance(node, ast.Attribute) or node.attr != "conf":
            return False
        return self._known.is_app(self._names.of(node.value))

    def _note_setting(self, node: ast.AST, name: str, value: ast.expr) -> None:
        name = setting_of(name) or name
        self._note(node, "setting", name, _word(SETTINGS, name, value))
        if name == "beat_schedule" and isinstance(value, ast.Dict):
            for key, entry in zip(value.keys, value.values, strict=True):
                self._note_beat(entry, _text(key) or "?")

    def _note_beat(self, entry: ast.expr, name: str) -> None:
        for node, word, found in beat_entries(entry, self._names):
            self._note(node, "beat", f"{name}: {word}" if word else name, found)

    # -- calls -----------------------------------------------------------------------------------

    def visit_Call(self, node: ast.Call) -> None:
        origin = self._names.of(node.func)
        last = (origin or "").rpartition(".")[2]
        if makes_apps(origin):
            self._note(node, "app", "Celery", catalogue.DELIVERY)
            self._options(node.keywords, catalogue.APP_OPTIONS, "Celery")
        elif origin is not None and origin.startswith("celery.") and last in catalogue.CANVAS:
            self._note(node, "canvas", last, catalogue.CANVAS[last])
        elif isinstance(node.func, ast.Attribute):
            self._method(node, node.func)
        self.generic_visit(node)

    def _method(self, node: ast.Call, func: ast.Attribute) -> None:
        receiver = self._names.of(func.value)
        if self._known.is_app(receiver):
            self._app_method(node, func.attr)
        elif self._is_conf(func.value) and func.attr == "update":
            self._update(node)
        elif func.attr == "retry" and self._is_self(func.value):
            self._note(node, "call", "retry", catalogue.TASK_METHODS["retry"])
            self._options(node.keywords, catalogue.RETRY_OPTIONS, "retry")
        elif self._is_task_call(func, receiver):
            self._task_method(node, func.attr)
        elif self._is_result(func.value) and func.attr in catalogue.RESULT_METHODS:
            self._note(node, "result", func.attr, catalogue.RESULT_METHODS[func.attr])

    def _is_task_call(self, func: ast.Attribute, receiver: str | None) -> bool:
        if self._is_self(func.value) or self._known.is_task(receiver):
            return True
        return func.attr in _ENQUEUES and self._known.mentioned

    def _app_method(self, node: ast.Call, name: str) -> None:
        if name in catalogue.APP_METHODS and name != "task":
            self._note(node, "call", f"app.{name}", catalogue.APP_METHODS[name])

    def _update(self, node: ast.Call) -> None:
        for one in node.keywords:
            if one.arg is not None:
                self._note_setting(one.value, one.arg, one.value)
        for given in node.args:
            for key, value in _pairs(given):
                self._note_setting(value, key, value)

    def _task_method(self, node: ast.Call, name: str) -> None:
        found = catalogue.TASK_METHODS.get(name) or catalogue.APP_METHODS.get(name)
        if found is None:
            return
        canvas = name in {"s", "si", "signature", "subtask", "map", "starmap", "chunks"}
        self._note(node, "canvas" if canvas else "call", name, found)
        if name in {"apply_async", "apply_async_on_commit"}:
            self._options(node.keywords, catalogue.CALL_OPTIONS, name)

    def _is_self(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Name) and node.id in self._bound

    def _is_result(self, node: ast.expr) -> bool:
        if isinstance(node, ast.Name):
            return node.id in self._results
        if not isinstance(node, ast.Call):
            return False
        origin = self._names.of(node.func) or ""
        if origin.startswith("celery.") and origin.endswith("AsyncResult"):
            return True
        return isinstance(node.func, ast.Attribute) and node.func.attr in _MAKES_RESULTS

    # -- the rest ----------------------------------------------------------------------------------

    def visit_BinOp(self, node: ast.BinOp) -> None:
        if isinstance(node.op, ast.BitOr) and any(map(_is_signature, (node.left, node.right))):
            self._note(node, "canvas", "|", catalogue.CANVAS["|"])
        self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        origin = self._names.of(node) or ""
        if origin.startswith("celery.signals."):
            name = origin.split(".")[2]
            self._note(node, "signal", name, catalogue.SIGNALS.get(name, _UNKNOWN))
            return
        owner, _, part = origin.rpartition(".")
        if part in {"control", "events", "amqp", "steps"} and self._known.is_app(owner):
            self._note(node, "call", f"app.{part}", catalogue.APP_METHODS[part])
        if self._is_request(node.value) and node.attr not in _REQUEST:
            self._note(node, "call", f"request.{node.attr}", _UNKNOWN)
        self.generic_visit(node)

    def _is_request(self, node: ast.expr) -> bool:
        if not isinstance(node, ast.Attribute) or node.attr != "request":
            return False
        return self._is_self(node.value)

    def _options(self, given: list[ast.keyword], words: Words, of: str) -> None:
        for one in given:
            if one.arg is not None:
                self._note(one.value, "option", f"{of} {one.arg}", _word(words, one.arg, one.value))

    def _note(self, node: ast.AST, kind: str, name: str, found: Counterpart) -> None:
        self.places.append(
            ScannedPlace(
                file=self._module.file,
                line=getattr(node, "lineno", 1),
                kind=kind,
                name=name,
                meaning=found.meaning,
                text=found.text,
            )
        )


def _word(words: Words, name: str, value: ast.expr) -> Counterpart:
    if name in _SERIALIZERS and _text(value) == "json":
        return _JSON
    return words.get(name, _UNKNOWN)


def _module_word(dotted: str) -> Counterpart | None:
    """The word of a module, or of the package that it is in."""
    while dotted:
        if dotted in catalogue.MODULES:
            return catalogue.MODULES[dotted]
        dotted = dotted.rpartition(".")[0]
    return None


def _pairs(given: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(given, ast.Dict):
        for key, value in zip(given.keys, given.values, strict=True):
            if (name := _text(key)) is not None:
                yield name, value


def _text(node: ast.expr | None) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def _truth(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and bool(node.value)


def _is_signature(node: ast.expr) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in {"s", "si", "signature"}
    )
