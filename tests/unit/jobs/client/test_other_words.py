"""Words of other libraries: each is answered by the word that offpath has for it."""

from __future__ import annotations

from typing import Any

import pytest

from offpath import App, InvalidArgument
from offpath.errors import TaskError
from offpath.jobs.define.task import BindOptions
from offpath.model import other_words


@pytest.fixture
def task() -> Any:
    app = App(auto_start=False)

    @app.task
    def add(a: int, b: int) -> int:
        return a + b

    return add


def test_each_word_leads_to_an_option_that_there_is() -> None:
    assert set(other_words.OPTIONS.values()) <= set(BindOptions.__annotations__)
    assert not set(BindOptions.__annotations__) & other_words.OPTIONS.keys()


@pytest.mark.parametrize(("theirs", "ours"), other_words.OPTIONS.items())
def test_an_option_of_another_library_is_answered_by_ours(
    task: Any, theirs: str, ours: str
) -> None:
    with pytest.raises(InvalidArgument, match=f"{theirs!r}; here it is called {ours!r}"):
        task.options(**{theirs: 1})


def test_a_setting_of_another_library_is_answered_by_ours() -> None:
    app = App(auto_start=False)
    settings: Any = {"max_retries": 3}
    with pytest.raises(TaskError, match="'max_retries'; here it is called 'retry'"):
        app.task(**settings)(print)


@pytest.mark.parametrize(("theirs", "ours"), other_words.VERBS.items())
def test_a_method_of_another_library_is_answered_by_ours(task: Any, theirs: str, ours: str) -> None:
    with pytest.raises(AttributeError) as caught:
        getattr(task, theirs)
    assert f"has no attribute {theirs!r}; write `{ours}`" in str(caught.value)


def test_any_other_attribute_is_missing_as_usual(task: Any) -> None:
    assert not hasattr(task, "nonsense")
    with pytest.raises(AttributeError, match=r"'nonsense'$"):
        _ = task.nonsense
