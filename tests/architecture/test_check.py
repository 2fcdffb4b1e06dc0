"""The gate itself: it finds every suite, counts rightly, and cannot be held up."""

from __future__ import annotations

import os
import subprocess
import threading
import time
import tomllib
from collections import Counter
from pathlib import Path
from typing import cast

import pytest

import check
from tests import outcomes, pythons, tools
from tests.architecture import sources
from tests.brokers import REDIS_PROGRAM, VALKEY
from tests.lanes import pile_of
from tests.servers import VARIABLE, without_password


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        (".....\n12 passed, 1 skipped in 3.20s\n", {"passed": 12, "skipped": 1}),
        (
            "\x1b[31m== \x1b[32m3 passed\x1b[0m, \x1b[1m2 failed\x1b[0m in 1s ==\n",
            {"passed": 3, "failed": 2},
        ),
        ("1 passed in an earlier line\nno tests ran in 0.01s\n", {}),
        ("1 error in 0.1s", {"error": 1}),
        ("", {}),
    ],
)
def test_the_last_line_of_pytest_is_counted(output: str, expected: dict[str, int]) -> None:
    assert outcomes.tally(output) == expected


def test_every_test_file_belongs_to_a_step() -> None:
    files = [source.name for source in sources.tests() if "/test_" in source.name]
    steps = tuple(f"tests/{name}/" for name in [*check.suites(), "typing"])
    assert files
    assert [name for name in files if not name.startswith(steps)] == []


def test_a_framework_with_another_version_on_a_newer_python_is_tried_there() -> None:
    """Its tests would otherwise run with the version of our oldest Python only."""
    locked = tomllib.loads((check.ROOT / "uv.lock").read_text())["package"]
    versions = Counter(package["name"] for package in locked)
    folders = {path.name for path in (check.ROOT / "tests/contrib").iterdir() if path.is_dir()}
    split = {name for name, number in versions.items() if number > 1} & folders
    assert split
    assert [each for each in split if f"tests/contrib/{each}" not in check.ON_NEWEST[-1]] == []


def test_named_steps_run_in_the_order_of_a_full_run() -> None:
    assert check.chosen(["architecture", "types", "lint"]) == ["lint", "types", "architecture"]


def test_an_unknown_step_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as refusal:
        check.chosen(["lnit"])
    assert refusal.value.code == 2
    assert "unknown step: lnit" in capsys.readouterr().err


def test_the_exit_code_of_a_tool_is_kept() -> None:
    code, text = tools.stream([check.BIN / "python", "-c", "print('seen'); raise SystemExit(3)"])
    assert (code, text.splitlines()[-1]) == (3, "seen")


def test_a_tool_that_hangs_is_killed_fails_and_says_where(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tools, "SILENCE_LIMIT", 2.0)
    script = "import threading; threading.Event().wait()"
    code, text = tools.stream([check.BIN / "python", "-X", "faulthandler", "-c", script])
    assert code == 1
    assert "threading.py" in text


def test_a_tool_that_goes_on_talking_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    heard: list[bytes] = []

    class Talker:
        def wait(self, limit: float) -> int:
            waits.append(limit)
            if len(waits) == 4:
                return 0
            heard.append(b".")
            raise subprocess.TimeoutExpired("pytest", limit)

    assert tools.patiently(cast("subprocess.Popen[bytes]", Talker()), heard, 7.0) == 0
    assert waits == [7.0] * 4


def test_what_a_tool_leaves_behind_holds_nothing_up() -> None:
    script = (
        "import subprocess, sys;"
        "subprocess.Popen([sys.executable, '-c', 'import threading; threading.Event().wait()'])"
    )
    assert tools.stream([check.BIN / "python", "-c", script])[0] == 0


_FLAKY = """
from pathlib import Path

import pytest

DONE = Path(__file__).with_name("done")

def test_good():
    assert True

@pytest.mark.parametrize("n", range({flaky}))
def test_flaky(n):
    done = DONE.with_name(f"done{{n}}")
    seen, _ = done.exists(), done.touch()
    assert seen

@pytest.mark.parametrize("n", range({broken}))
def test_broken(n):
    assert False
"""


@pytest.mark.parametrize(
    ("flaky", "broken", "ended"),
    [
        (2, 0, (0, {"passed": 1, "skipped": 1, "late": 2})),
        (1, 1, (1, {"passed": 1, "failed": 2})),
        (4, 0, (1, {"passed": 1, "skipped": 1, "failed": 4})),
    ],
)
def test_what_fails_is_tried_once_more_and_what_passes_then_is_told(
    tmp_path: Path, flaky: int, broken: int, ended: tuple[int, dict[str, int]]
) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]")
    (tmp_path / "test_some.py").write_text(_FLAKY.format(flaky=flaky, broken=broken))
    line = [str(check.BIN / "pytest"), "-q", str(tmp_path), "-o", f"cache_dir={tmp_path / 'cache'}"]
    code, text = tools.stream(line)
    assert code == 1
    assert outcomes.once_more(line, outcomes.tally(text), tools.TERMINAL) == ended


class Tools:
    """Stands in for the tools: keeps which began, and lets two end only when both run."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, meet: int) -> None:
        self.log: list[str] = []
        self.both = threading.Barrier(meet)
        monkeypatch.setattr(check, "stream", self.stream)
        monkeypatch.setattr(check, "prepare_newest", lambda: True)

    def stream(
        self, command: list[Path | str], output: tools.Output, _patience: float | None
    ) -> tuple[int, str]:
        name = " ".join([Path(command[0]).name, *map(str, command[1:])])
        output.say(f"text of {name}")
        self.log.append(f"began {name}")
        if name == "mypy" or "tests/integration" in command:
            self.both.wait(10)  # each of the two needs the other one to run
        return 0, "1 passed in 1s"


def test_steps_run_at_once_behind_the_quick_ones_and_the_text_of_each_is_whole(
    monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    kit = Tools(monkeypatch, meet=2)
    steps = ["lint", "types", "typing", "unit", "integration", "cli"]
    outcomes = check.run_steps(steps)
    assert [each.step for each in outcomes] == steps
    assert all(each.passed for each in outcomes)
    assert kit.log[0].startswith("began ruff check")
    assert kit.log.index("began mypy") < kit.log.index("began mypy tests/typing")
    shown = [line for line in capfdbinary.readouterr().out.splitlines() if b"text of" in line]
    assert sorted(line.decode().replace("text of", "began") for line in shown) == sorted(kit.log)


def test_two_steps_that_write_one_cache_never_run_at_once() -> None:
    steps = ["types", "typing", "unit", "integration"]
    long = ("integration", "types")
    assert list(pile_of(steps, long)) == [("integration",), ("types", "typing"), ("unit",)]
    assert list(pile_of(["typing", "unit"], long)) == [("typing",), ("unit",)]


def test_a_run_that_is_given_up_ends_what_runs_beside_it(monkeypatch: pytest.MonkeyPatch) -> None:
    hang = "python -c __import__('threading').Event().wait()"
    monkeypatch.setitem(check.STATIC, "types", (hang,))
    began = time.monotonic()

    def given_up(*_: object) -> outcomes.Outcome:
        while not tools.RUNNING:
            assert time.monotonic() - began < 20
        raise SystemExit(143)

    real = check.run_step

    def run_step(_: str, output: tools.Output, *, prepared: bool) -> outcomes.Outcome:
        here = threading.current_thread() is threading.main_thread()
        return given_up() if here else real("types", output, prepared=prepared)

    monkeypatch.setattr(check, "run_step", run_step)
    with pytest.raises(SystemExit):
        check.run_steps(["types", "unit"])  # one for each lane
    assert not tools.RUNNING
    assert time.monotonic() - began < 20


def test_the_tools_share_the_bytecode_that_the_first_one_wrote(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    check.clean_environment()
    code, text = tools.stream(
        [check.BIN / "python", "-c", "import sys; print(sys.dont_write_bytecode)"]
    )
    assert (code, text.strip()) == (0, "False")


def test_the_table_names_what_failed(capsys: pytest.CaptureFixture[str]) -> None:
    outcomes.report(
        [
            outcomes.Outcome("lint", passed=False, seconds=0.1, counts={}),
            outcomes.Outcome("unit", passed=True, seconds=2.0, counts={"passed": 5}),
            outcomes.Outcome("cli", passed=True, seconds=1.0, counts={"passed": 2, "skipped": 1}),
        ],
        seconds=2.5,
    )
    assert capsys.readouterr().out.splitlines()[-1] == "FAILED: lint in 2 s: 7 passed, 1 skipped"


def test_the_server_that_tests_use_is_named_and_our_own_is_preferred(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "environ", {})
    monkeypatch.setattr(check, "own_cluster", Cluster)
    monkeypatch.setattr(check, "running_postgres", lambda: "postgresql://me:secret@there/db")
    with check.postgres():
        assert os.environ[VARIABLE] == Cluster.url
    assert (
        capsys.readouterr().out
        == f"== Postgres: {without_password(Cluster.url)}, started for this run\n"
    )

    with check.postgres():  # named by then
        assert os.environ[VARIABLE] == "postgresql://me:secret@there/db"
    shown = capsys.readouterr().out
    assert shown == f"== Postgres: postgresql://there/db, named by {VARIABLE}\n"


class Cluster:
    """Stands in for a server of our own."""

    url = "postgresql://postgres@127.0.0.1:1/postgres"

    def start(self) -> None:
        """Nothing to start."""

    def destroy(self) -> None:
        """Nothing to remove."""


def test_a_run_without_the_newest_python_says_so_and_fails_in_ci(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(pythons.VARIABLE, "/nowhere/python")
    monkeypatch.delenv("CI", raising=False)
    assert check.run_step(check.NEWEST).passed
    assert "/nowhere/python does not run here" in capsys.readouterr().out
    monkeypatch.setenv("CI", "true")
    assert not check.run_step(check.NEWEST).passed


def test_the_matrix_is_each_other_python_frameworks_and_valkey() -> None:
    others = ["matrix-oldest", "matrix-django-6.0", "matrix-valkey"]
    assert check.chosen(["matrix"]) == ["matrix-3.12", "matrix-3.13", *others]
    assert check.chosen(["matrix-oldest"]) == ["matrix-oldest"]
    assert not set(check.chosen([])) & set(check.MATRIX)
    oldest = check.MATRIX["matrix-oldest"].pinned
    pinned = {one.partition("==")[0] for one in oldest}
    assert pinned >= {"django", "fastapi", "sqlalchemy", "aiokafka", "aiobotocore", "boto3"}
    between = check.MATRIX["matrix-django-6.0"]
    assert (between.python, between.pinned) == ("3.12", ("django==6.0.*",))
    assert check.binaries_of("matrix-3.12") == check.ROOT / ".venv-matrix-3.12" / "bin"


def test_a_step_of_the_matrix_has_its_own_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = list[list[str]]()

    def stream(line: list[str], *_: object) -> tuple[int, str]:
        seen.append(line)
        return 0, "1 passed in 0.1s"

    monkeypatch.setattr(check, "prepare_matrix", lambda _step: True)
    monkeypatch.setattr(check, "stream", stream)
    assert check.run_step("matrix-valkey").passed
    assert {tuple(line[:2]) for line in seen} == {("env", f"{REDIS_PROGRAM}={VALKEY}")}
    seen.clear()
    assert check.run_step("matrix-3.12").passed
    assert {Path(line[0]).name for line in seen} == {"pytest"}


def test_a_python_of_the_matrix_that_is_not_there_fails_in_ci(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(pythons, "works", lambda _: False)
    monkeypatch.delenv("CI", raising=False)
    assert check.run_step("matrix-3.12").passed
    assert "Python 3.12 does not run here" in capsys.readouterr().out
    monkeypatch.setenv("CI", "true")
    assert not check.run_step("matrix-3.12").passed


def test_the_pooler_is_installed_or_its_lack_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[str] = []

    def install(package: str) -> bool:
        asked.append(package)
        return False

    monkeypatch.setattr(check, "apt_install", install)
    monkeypatch.setattr(check, "pgbouncer", lambda: None)
    check.pooler()
    assert asked == ["pgbouncer"]
    assert "the tests of pooling are skipped" in capsys.readouterr().out


def test_the_tool_that_tests_alerts_is_installed_or_its_lack_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[str] = []

    def install(package: str) -> bool:
        asked.append(package)
        return False

    monkeypatch.setattr(check, "apt_install", install)
    monkeypatch.setattr(check, "promtool", lambda: None)
    check.alerts_tool()
    assert asked == ["prometheus"]
    assert "the tests of alerts are skipped" in capsys.readouterr().out
    monkeypatch.setattr(check, "promtool", lambda: "/usr/bin/promtool")
    check.alerts_tool()
    assert (asked, capsys.readouterr().out) == (["prometheus"], "")
