"""The names that users may import: listed, present, documented, and nothing else."""

from __future__ import annotations

import importlib
import importlib.metadata
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


MOST_NAMES = 60
"""Names at the top: those that the guides' first pages teach, and the errors that callers catch."""
MODULES = (
    "batch_tasks",
    "economy",
    "errors",
    "events",
    "extensions",
    "records",
    "retries",
    "settlements",
    "settlements.rates",
    "sweeps",
    "testing",
    "workers",
)


def test_the_top_level_stays_small() -> None:
    assert len(offpath.__all__) <= MOST_NAMES


@pytest.mark.parametrize("module", MODULES)
def test_each_name_of_a_public_module_is_there_and_documented(module: str) -> None:
    found = importlib.import_module(f"offpath.{module}")
    assert found.__all__
    unknown = [name for name in found.__all__ if not hasattr(found, name)]
    assert unknown == []
    # an alias of a type or a constant has the docstring of its kind
    assert [name for name in found.__all__ if not inspect.getdoc(getattr(found, name))] == []


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("Event", "offpath.events"),
        ("RelayFailed", "offpath.errors"),
        ("Lossback", "offpath.settlements.rates"),
        ("Tally", "offpath.sweeps"),
        ("BatchTask", "offpath.batch_tasks"),
        ("TopUp", "offpath.economy"),
    ],
)
def test_a_name_of_another_module_is_refused_with_its_place(name: str, place: str) -> None:
    with pytest.raises(ImportError, match=f"from {place} import {name}"):
        getattr(offpath, name)


def test_a_name_that_is_nowhere_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Nonsense'"):
        getattr(offpath, "Nonsense")  # noqa: B009 - a type checker would refuse the attribute


def test_the_version_is_that_of_the_distribution() -> None:
    assert offpath.__version__ == importlib.metadata.version("offpath")
