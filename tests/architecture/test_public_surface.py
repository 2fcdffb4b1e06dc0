"""What users may import: named, present, documented, and nothing else."""

from __future__ import annotations

import inspect
from types import ModuleType

import pytest

import offpath
from offpath import errors

NAMES = sorted(getattr(offpath, "__all__", ()))
CLASSES = [name for name in NAMES if inspect.isclass(getattr(offpath, name, None))]


def test_the_public_names_are_named_once() -> None:
    assert sorted(offpath.__all__) == sorted(set(offpath.__all__))


def test_nothing_public_is_left_unnamed() -> None:
    present = {
        name
        for name, value in vars(offpath).items()
        if not name.startswith("_") and not isinstance(value, ModuleType) and name != "annotations"
    }
    assert present - set(offpath.__all__) == set()


@pytest.mark.parametrize("name", NAMES)
def test_each_public_name_is_there_and_documented(name: str) -> None:
    value = getattr(offpath, name)
    if not isinstance(value, str):  # __version__
        assert inspect.getdoc(value)


@pytest.mark.parametrize("name", CLASSES)
def test_each_public_method_is_documented(name: str) -> None:
    members = vars(getattr(offpath, name)).items()
    public = [(key, value) for key, value in members if not key.startswith("_")]
    callables = [(key, value) for key, value in public if callable(value) or _described(value)]
    assert [key for key, value in callables if not inspect.getdoc(value)] == []


def _described(value: object) -> bool:
    return isinstance(value, property | classmethod | staticmethod)


def _tree(root: type[errors.OffpathError]) -> list[type[errors.OffpathError]]:
    return [root, *(kind for child in root.__subclasses__() for kind in _tree(child))]


def test_each_error_has_a_code_of_its_own() -> None:
    kinds = {
        kind for kind in _tree(errors.OffpathError) if kind.__module__.startswith("offpath.errors.")
    }
    codes = [kind.code for kind in kinds]
    assert len(kinds) > 1
    assert sorted(codes) == sorted(set(codes))


def test_each_error_is_drawn_in_the_tree() -> None:
    drawn = errors.__doc__ or ""
    kinds = [
        kind for kind in _tree(errors.OffpathError) if kind.__module__.startswith("offpath.errors.")
    ]
    assert [kind.__name__ for kind in kinds if kind.__name__ not in drawn] == []
