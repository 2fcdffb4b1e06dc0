#!/usr/bin/env python3
"""Every gate of the project in one command: ``python3 check.py``.

Needs Python 3.11 and nothing else: it makes ``.venv``, installs the locked dependencies, and
starts a Postgres of its own, and the brokers when none run. ``python3 check.py lint types unit``
runs only the steps named; ``python3 check.py --list`` names them. ``python3 check.py matrix`` runs
unit, conformance and frameworks on every supported Python instead. The exit code is 0 only when
every step passed.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

if sys.version_info < (3, 11):  # noqa: UP036 - says so, instead of failing obscurely below
    sys.exit("check.py: Python 3.11 or newer is needed")

from tests.brokers import PACKAGES, Broker, find_broker, variable
from tests.chromium import PACKAGE as BROWSER
from tests.chromium import chromium
from tests.lanes import in_lanes, pile_of
from tests.matrix import PREFIX, environments
from tests.outcomes import Outcome, once_more, report, tally
from tests.pgbouncer import PACKAGE as POOLER
from tests.pgbouncer import pgbouncer
from tests.prometheus import PACKAGE, promtool
from tests.pythons import NoPython, newest_python
from tests.scratch import scratch
from tests.servers import VARIABLE, NoServer, PostgresCluster, postgres_binaries, without_password
from tests.tools import MUTE_LIMIT, TERMINAL, Output, say, stream

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ROOT = Path(__file__).resolve().parent
VENV = ROOT / ".venv"
BIN = VENV / "bin"
NEWEST_VENV = ROOT / ".venv-newest"

# --no-cache: a cached import of a module that did not exist yet stays wrong for ever
STATIC = {
    "lint": ("ruff check .",),
    "format": ("ruff format --check .",),
    "types": ("mypy",),
    "typing": ("mypy tests/typing", "basedpyright tests/typing"),
    "imports": ("lint-imports --no-cache",),
}
CORES = os.cpu_count() or 1

ORDER = (
    "unit", "conformance", "attacks", "integration", "contrib", "cli", "examples", "architecture"
)  # fmt: skip
"""The known suites, quickest news first; a new folder of tests is found and runs after them."""

NEWEST = "newest"
"""The step that runs on the newest Python what the language can change: our own code. Most tests on
Postgres ask what the server does, which is the same for each; ``matrix`` runs them all. A framework
whose newest version wants a newer Python than our oldest is tried here with it."""
ON_NEWEST = (
    "pytest -q tests/unit --ignore tests/unit/store/postgres --ignore-glob */test_benchmark*",
    "pytest -q tests/conformance -k memory",
    "pytest -q tests/contrib/django tests/contrib/dashboard",
)

MATRIX = environments(ROOT / "pyproject.toml")
"""The steps of ``check.py matrix``, which no plain run takes: every Python, oldest frameworks."""

QUICK = ("lint", "format", "imports")
"""Steps of seconds, which run first and alone: what they find needs no other news."""
LONGEST = ("integration", NEWEST, "types", "typing", "unit", "conformance", "contrib", "browser")
"""The steps that begin first, so that none of them is alone at the end of a run."""

# -- steps -----------------------------------------------------------------------------------------


def suites() -> list[str]:
    """Every folder below ``tests`` that holds tests; none can be forgotten."""
    found = {
        path.relative_to(ROOT / "tests").parts[0] for path in (ROOT / "tests").rglob("test_*.py")
    }
    known = [name for name in ORDER if name in found]
    return known + sorted(found - set(ORDER) - {"typing"})


def commands(step: str) -> tuple[str, ...]:
    """The command lines of a step."""
    if step in STATIC:
        return STATIC[step]
    color = " --color=yes" if sys.stdout.isatty() else ""
    suites_of: tuple[str, ...] = (f"pytest -q tests/{step}",)
    if step == NEWEST:
        suites_of = ON_NEWEST
    elif step in MATRIX:
        suites_of = MATRIX[step].commands
    # a long test at the end of a list must not leave the other processes without work
    return tuple(f"{command} -n {min(CORES, 4)} --dist worksteal{color}" for command in suites_of)


def run_steps(steps: Sequence[str]) -> list[Outcome]:
    """Run the steps, in lanes where there are several suites; their ends in the order given."""
    outcomes: dict[str, Outcome] = {}
    laned = [step for step in steps if step not in QUICK]
    for step in steps:
        if step not in laned:
            outcomes[step] = run_step(step)
    outcomes |= missing(laned)
    left = [step for step in laned if step not in outcomes]
    outcomes |= in_lanes(pile_of(left, LONGEST), lambda *step: run_step(*step, prepared=True))
    return [outcomes[step] for step in steps]


def missing(steps: Sequence[str]) -> dict[str, Outcome]:
    """Prepare the other environments that steps want; the outcomes of steps that have none."""
    began = time.monotonic()
    # what is prepared changes the environment, which the other lanes read: before they begin
    absent = [step for step in steps if step in MATRIX and not prepare_matrix(step)]
    if NEWEST in steps and not prepare_newest():
        absent.append(NEWEST)
    return {step: without(step, began) for step in absent}


def without(step: str, began: float) -> Outcome:
    """The outcome of a step whose Python is not here: a failure where ``CI`` is set."""
    return Outcome(step, "CI" not in os.environ, time.monotonic() - began, {})


def run_step(step: str, output: Output = TERMINAL, *, prepared: bool = False) -> Outcome:
    """Run all commands of a step, also after one failed, so that one run shows everything."""
    began = time.monotonic()
    passed = True
    counts: dict[str, int] = {}
    if step == NEWEST and not prepared and not prepare_newest():
        return without(NEWEST, began)
    if step in MATRIX and not prepared and not prepare_matrix(step):
        return without(step, began)
    binaries = binaries_of(step)
    variables = MATRIX[step].variables if step in MATRIX else ()
    # on the command line, since the steps of another lane share our environment
    within = ["env", *(f"{name}={value}" for name, value in variables)] if variables else []
    for command in commands(step):
        output.say(f"\n== {step}: {command}")
        kept = [] if step in STATIC else ["-o", f"cache_dir=.pytest_cache/{step}"]
        line = [*within, str(binaries / command.split()[0]), *command.split()[1:], *kept]
        code, text = stream(line, output, MUTE_LIMIT if step in STATIC else None)
        found = {} if step in STATIC else tally(text)
        if code and found:
            code, found = once_more(line, found, output)
        passed = passed and code == 0
        for word, number in found.items():
            counts[word] = counts.get(word, 0) + number
    return Outcome(step, passed, time.monotonic() - began, counts)


def binaries_of(step: str) -> Path:
    """The folder of the commands that a step runs."""
    if step in MATRIX:
        return ROOT / MATRIX[step].folder / "bin"
    return NEWEST_VENV / "bin" if step == NEWEST else BIN


# -- the environment -------------------------------------------------------------------------------


def attempt(*command: str | Path) -> bool:
    """Run a command of the set-up; whether it succeeded."""
    say(f"== {' '.join(map(str, command))}")
    return subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, check=False).returncode == 0


# -- the environment -------------------------------------------------------------------------------


def prepare() -> None:
    """Make ``.venv`` hold exactly the locked dependencies."""
    clean_environment()
    interpreter = () if BIN.joinpath("python").exists() else ("--python", sys.executable)
    sync = ("sync", "--frozen", "--all-extras", "--inexact", "--quiet", *interpreter)
    found = shutil.which("uv")
    if found and attempt(found, *sync):
        return
    # no uv, or one too old to read the lock
    if not attempt(own_uv(), *sync):
        sys.exit("check.py: the dependencies could not be installed (see above)")


def clean_environment() -> None:
    """Drop the variables of the caller's shell that would change what a run does."""
    # an activated environment of something else must not be filled instead of ours
    os.environ.pop("VIRTUAL_ENV", None)
    # files of tests wait for the disk at each commit, which is not what they are about
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(scratch()))
    # thousands of processes start in a run: without bytecode each compiles all that it imports
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


def prepare_newest() -> bool:
    """Make ``.venv-newest`` hold the same on the newest Python; False, and why, without one."""
    try:
        python = newest_python()
    except NoPython as reason:
        say(f"check.py: {NEWEST} is skipped (and fails where CI is set): {reason}")
        return False
    return synced(NEWEST_VENV, python)


def prepare_matrix(step: str) -> bool:
    """Make the environment of a step of the matrix; False, and why, where it cannot be made."""
    environment = MATRIX[step]
    folder = ROOT / environment.folder
    try:
        python = environment.interpreter()
    except NoPython as reason:
        say(f"check.py: {step} is skipped (and fails where CI is set): {reason}")
        return False
    if not synced(folder, python):
        return False
    pip = ("pip", "install", "--quiet", "--python", str(folder / "bin" / "python"))
    return not environment.pinned or attempt(
        shutil.which("uv") or own_uv(), *pip, *environment.pinned
    )


def synced(folder: Path, python: Path) -> bool:
    """Make an environment hold the locked dependencies on this Python."""
    os.environ["UV_PROJECT_ENVIRONMENT"] = str(folder)
    sync = ("sync", "--frozen", "--all-extras", "--inexact", "--quiet", "--python", str(python))
    try:
        return attempt(shutil.which("uv") or own_uv(), *sync) or attempt(own_uv(), *sync)
    finally:
        del os.environ["UV_PROJECT_ENVIRONMENT"]


def own_uv() -> Path:
    """Our own uv inside ``.venv``, installed there when missing."""
    uv = BIN / "uv"
    if not uv.exists():
        if not BIN.joinpath("python").exists():
            make_venv()
        attempt(BIN / "python", "-m", "ensurepip", "--upgrade")
        if not attempt(BIN / "python", "-m", "pip", "install", "--quiet", "uv"):
            sys.exit("check.py: uv could not be installed; see https://docs.astral.sh/uv/")
    return uv


def make_venv() -> None:
    """A bare environment; Debian ships the module for it in a package of its own."""
    make = (sys.executable, "-m", "venv", "--clear", VENV)
    if attempt(*make):
        return
    name = f"python{sys.version_info.major}.{sys.version_info.minor}-venv"
    if not (apt_install(name) and attempt(*make)):
        sys.exit(f"check.py: `python3 -m venv` does not work here; install {name}")


def apt_install(package: str) -> bool:
    """Install a system package where that is ours to do: as root, with apt."""
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        return False
    os.environ["DEBIAN_FRONTEND"] = "noninteractive"
    attempt("apt-get", "update", "-qq")
    return attempt("apt-get", "install", "-y", "-qq", "--no-install-recommends", package)


# -- Postgres --------------------------------------------------------------------------------------


@contextlib.contextmanager
def postgres() -> Iterator[None]:
    """A server for the tests, in the environment; one that we started is gone afterwards.

    The one that was named, else one of our own: what else listens here may be full, slow, or
    somebody's. Only where no server can be started is a running one taken.
    """
    if VARIABLE in os.environ:
        use(running_postgres(), f"named by {VARIABLE}")
        yield
        return
    try:
        cluster = own_cluster()
    except NoServer as reason:
        use(running_postgres(), f"already running here ({reason})")
        yield
        return
    try:
        cluster.start()
        use(cluster.url, "started for this run")
        yield
    finally:
        cluster.destroy()


def use(url: str, origin: str) -> None:
    """Let the tests use this server, and say which one it is."""
    say(f"== Postgres: {without_password(url)}, {origin}")
    os.environ[VARIABLE] = url


def running_postgres() -> str:
    """The server that the tests would find by themselves; ends the run when it cannot be used."""
    command = (BIN / "python", "-m", "tests.servers")
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if found.returncode:
        sys.exit(f"check.py: {found.stderr.strip()}")
    return found.stdout.strip()


def own_cluster() -> PostgresCluster:
    """A private cluster, with the server installed first where that is possible.

    Raises ``NoServer``.
    """
    try:
        postgres_binaries()
    except NoServer:
        if not apt_install("postgresql"):
            raise
    return PostgresCluster.create()


# -- Prometheus ------------------------------------------------------------------------------------


def alerts_tool() -> None:
    """The tool that tests alerts; without it, they are skipped, and fail where ``CI`` is set."""
    if promtool() is None and not (apt_install(PACKAGE) and promtool() is not None):
        say(f"check.py: promtool is not installed ({PACKAGE}): the tests of alerts are skipped")


# -- PgBouncer -------------------------------------------------------------------------------------


def pooler() -> None:
    """The program that pools connections; without it, its tests are skipped, and fail in ``CI``."""
    if pgbouncer() is None and not (apt_install(POOLER) and pgbouncer() is not None):
        say(f"check.py: pgbouncer is not installed ({POOLER}): the tests of pooling are skipped")


# -- a browser -------------------------------------------------------------------------------------


def browser() -> None:
    """The browser of the dashboard's tests; without it, they are skipped, and fail in ``CI``."""
    if chromium() is None and not (apt_install(BROWSER) and chromium() is not None):
        say(f"check.py: chromium is not installed ({BROWSER}): the dashboard is not looked at")


# -- brokers ---------------------------------------------------------------------------------------


@contextlib.contextmanager
def brokers() -> Iterator[None]:
    """One of each kind for the tests, in the environment; those that we started are gone after."""
    with contextlib.ExitStack() as stack:
        for kind in PACKAGES:
            try:
                os.environ[variable(kind)] = find_broker(kind)
            except NoServer as reason:
                if variable(kind) in os.environ:
                    sys.exit(f"check.py: {reason}")
                own_broker(kind, stack)
        yield


def own_broker(kind: str, stack: contextlib.ExitStack) -> None:
    """Start a broker; without one, its tests are skipped, and fail where ``CI`` is set."""
    for again in (True, False):
        broker = Broker(kind)
        stack.callback(broker.destroy)
        try:
            broker.start()
        except NoServer as reason:
            if again and "not installed" in str(reason) and apt_install(PACKAGES[kind]):
                continue
            say(f"check.py: {reason}")
            return
        say(f"== started {PACKAGES[kind]} at port {broker.port}")
        os.environ[variable(kind)] = broker.url
        return


# -- the command -----------------------------------------------------------------------------------


def chosen(arguments: Sequence[str] | None) -> list[str]:
    """The steps to run, in the order of a full run."""
    every = [*STATIC, *suites(), NEWEST]
    if arguments is None:
        arguments = sys.argv[1:]
    if any(one == "matrix" or one.startswith(PREFIX) for one in arguments):
        every = list(MATRIX)
        os.environ["OFFPATH_TEST_BACKENDS"] = "redis"  # every test of the profiles that it offers
        arguments = [one for one in arguments if one != "matrix"]
    parser = argparse.ArgumentParser(description="Run the gates of the project.")
    parser.add_argument("steps", nargs="*", help=f"of: {' '.join(every)} (default: all)")
    parser.add_argument("--list", action="store_true", help="name the steps and stop")
    options = parser.parse_args(arguments)
    unknown = set(options.steps) - set(every)
    if unknown:
        parser.error(f"unknown step: {', '.join(sorted(unknown))} (of: {' '.join(every)})")
    if options.list:
        print("\n".join(every))
        sys.exit(0)
    return [step for step in every if step in options.steps or not options.steps]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the chosen steps; 0 when all passed."""
    steps = chosen(arguments)
    # so that a terminated run still stops what it started
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    prepare()
    needs_server = any(step not in STATIC for step in steps)
    needs_brokers = "integration" in steps
    if "architecture" in steps:
        alerts_tool()
    if "integration" in steps:
        pooler()
        browser()
    with (
        postgres() if needs_server else contextlib.nullcontext(),
        brokers() if needs_brokers else contextlib.nullcontext(),
    ):
        began = time.monotonic()
        outcomes = run_steps(steps)
    report(outcomes, time.monotonic() - began)
    return 0 if all(outcome.passed for outcome in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
