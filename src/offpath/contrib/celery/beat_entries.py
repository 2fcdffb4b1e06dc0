"""Entries of a beat schedule as they stand in source, each with the schedule that it becomes."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

from offpath.contrib.celery import catalogue
from offpath.contrib.celery.catalogue import Counterpart, Meaning
from offpath.contrib.celery.crontab import FIELDS, expression, joined
from offpath.contrib.celery.names import ModuleNames

Noted = tuple[ast.AST, str, Counterpart]
"""A node, the word of the entry that it is about (empty: the entry), and its counterpart."""

_COMPUTED: Final = Counterpart(
    Meaning.CHANGED, "computed at run time: write cron=, every= or when= by hand"
)
_UNKNOWN: Final = Counterpart(Meaning.ABSENT, "a beat entry has no such key")


def beat_entries(entry: ast.expr, names: ModuleNames) -> Iterator[Noted]:
    """The parts of one entry, each with its counterpart."""
    if not isinstance(entry, ast.Dict):
        yield entry, "", _COMPUTED
        return
    for key, value in zip(entry.keys, entry.values, strict=True):
        word = key.value if isinstance(key, ast.Constant) else "?"
        if word == "schedule":
            yield entry, "", schedule_of(value, names)
        elif word == "options" and isinstance(value, ast.Dict):
            yield from _options(value)
        elif (found := catalogue.BEAT_OPTIONS.get(str(word), _UNKNOWN)).meaning is Meaning.ABSENT:
            yield value, str(word), found


def _options(given: ast.Dict) -> Iterator[Noted]:
    for key, value in zip(given.keys, given.values, strict=True):
        word = str(key.value) if isinstance(key, ast.Constant) else "?"
        found = catalogue.CALL_OPTIONS.get(word, _UNKNOWN)
        if found.meaning is not Meaning.SAME:
            yield value, f"options {word}", found


def schedule_of(node: ast.expr, names: ModuleNames) -> Counterpart:
    """The schedule that an expression becomes."""
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        return _every(f"{node.value}")
    last = ((names.of(node.func) or "").rpartition(".")[2]) if isinstance(node, ast.Call) else ""
    if last in {"timedelta", "schedule"}:
        return _every(ast.unparse(node))
    if last == "solar":
        return catalogue.IMPORTS["solar"]
    if last == "crontab" and isinstance(node, ast.Call):
        return _cron(node)
    return _COMPUTED


def _every(text: str) -> Counterpart:
    return Counterpart(Meaning.SAME, f"app.schedule(name, task.job(...), every={text})")


def _cron(node: ast.Call) -> Counterpart:
    if node.args[2:] or any(one.arg not in FIELDS for one in node.keywords):
        return _COMPUTED  # the order of what follows the hour has changed between versions
    given = dict(zip(FIELDS, node.args, strict=False)) | {
        one.arg: one.value for one in node.keywords if one.arg is not None
    }
    values: dict[str, str] = {}
    for name, value in given.items():
        try:
            values[name] = joined(ast.literal_eval(value))
        except (ValueError, TypeError, SyntaxError):
            return _COMPUTED
    if all(values.get(name, "*") != "*" for name in catalogue.EITHER):
        return catalogue.BOTH_DAYS
    return Counterpart(
        Meaning.SAME, f'app.schedule(name, task.job(...), cron="{expression(values)}")'
    )
