"""A process without a descriptor says so once, and who runs in it."""

from __future__ import annotations

import errno
import logging
import os
from types import SimpleNamespace
from typing import Any

import pytest

from offpath.jobs.worker.descriptors import Descriptors


class Process:
    """A process whose descriptors may be used up."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.error: int | None = None
        self.runs: list[Any] = []
        self._open = os.open
        self.descriptors = Descriptors(lambda: self.runs)
        monkeypatch.setattr("offpath.jobs.worker.descriptors.os.open", self.open)

    def said(self) -> str | None:
        return self.descriptors.exhausted

    def open(self, path: str, flags: int) -> int:
        if self.error is not None:
            raise OSError(self.error, os.strerror(self.error))
        return self._open(path, flags)


@pytest.mark.parametrize("error", [errno.EMFILE, errno.ENFILE])
def test_it_names_who_runs_once_and_says_when_it_is_over(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, error: int
) -> None:
    process = Process(monkeypatch)
    process.runs = [
        SimpleNamespace(job=SimpleNamespace(id=f"j{number}", task="leak")) for number in range(5)
    ]
    with caplog.at_level(logging.WARNING, "offpath.worker"):
        process.descriptors.look()
        assert process.said() is None
        process.error = error
        for _ in range(3):
            process.descriptors.look()
        wanted = (
            "the process has no file descriptor left while job j0 of task leak, "
            "job j1 of task leak, job j2 of task leak runs: does it close its files?"
        )
        assert process.said() == wanted
        process.error = None
        process.descriptors.look()
    assert process.said() is None
    told = [one.getMessage() for one in caplog.records]
    assert told == [wanted, "the process has file descriptors again"]


def test_another_error_says_nothing_of_descriptors(monkeypatch: pytest.MonkeyPatch) -> None:
    process = Process(monkeypatch)
    process.error = errno.EACCES
    process.descriptors.look()
    assert process.said() is None


def test_a_look_keeps_nothing_open(monkeypatch: pytest.MonkeyPatch) -> None:
    process = Process(monkeypatch)
    process.descriptors.look()
    opened = os.open(os.devnull, os.O_RDONLY)
    os.close(opened)
    process.descriptors.look()
    again = os.open(os.devnull, os.O_RDONLY)
    os.close(again)
    assert opened == again
