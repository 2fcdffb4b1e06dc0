"""The servers that tests need: finding a running one, making databases, or starting our own.

The module itself needs nothing but the standard library, because ``check.py`` starts Postgres with
it before anything is installed. ``python -m tests.servers`` prints the URL of a usable server.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit

from tests.scratch import scratch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    import psycopg

VARIABLE = "OFFPATH_TEST_POSTGRES"
"""Names the server that tests use. Its role must be allowed to create databases."""

CONNECTIONS = 80
"""Connections that the suites have open at the same moment, at most."""

_STRATEGIES = 15_00_00
"""The first version that is told how to copy a database; older ones copy its files."""

_DEFAULTS = (
    "postgresql://postgres@127.0.0.1:5432/postgres",
    "postgresql:///postgres?host=/var/run/postgresql",
)


class NoServer(Exception):
    """There is no usable server; the text says what to do."""


# -- a running server ------------------------------------------------------------------------------


def find_postgres() -> str:
    """The URL of a server where we may create databases. Raises :class:`NoServer`."""
    named = os.environ.get(VARIABLE)
    refusals = []
    for url in (named,) if named else _DEFAULTS:
        refusal = _refusal(url)
        if refusal is None:
            return url
        refusals.append(f"  {without_password(url)}: {refusal}")
    text = "\n".join(refusals)
    raise NoServer(f"no usable Postgres; start one, or name one in {VARIABLE}. Tried:\n{text}")


def _refusal(url: str) -> str | None:
    import psycopg

    question = """
        SELECT
            (SELECT rolcreatedb OR rolsuper FROM pg_roles WHERE rolname = current_user),
            current_setting('max_connections')::int - (SELECT count(*) FROM pg_stat_activity)
    """
    try:
        with psycopg.connect(url, autocommit=True, connect_timeout=3) as connection:
            row = connection.execute(question).fetchone()
    except psycopg.Error as error:
        return str(error).strip().splitlines()[0]
    assert row is not None
    return refused(creates=bool(row[0]), free=int(row[1]))


def refused(*, creates: bool, free: int) -> str | None:
    """Why a server cannot be used by the tests; None when it can.

    A full server makes tests fail as a broken product would, so it is told beforehand.
    """
    if not creates:
        return "the role may not create databases"
    if free < CONNECTIONS:
        return f"only {free} connections are free, and the tests need {CONNECTIONS}"
    return None


def without_password(url: str) -> str:
    """The URL as it may be shown."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=host))


def with_database(url: str, name: str) -> str:
    """The same server, another database."""
    parts = urlsplit(url)
    # urlunsplit drops the empty authority of a socket URL, which libpq insists on
    query = f"?{parts.query}" if parts.query else ""
    return f"{parts.scheme}://{parts.netloc}/{name}{query}"


# -- databases -------------------------------------------------------------------------------------


@dataclass(slots=True)
class Databases:
    """Makes and drops databases of one server; every name is this process's own."""

    server: str
    _names: Iterator[int] = field(default_factory=itertools.count, init=False)
    _templates: dict[str, str] = field(default_factory=dict, init=False)

    def create(self, template: str = "template0") -> str:
        """A new database; returns its URL."""
        worker = os.environ.get("PYTEST_XDIST_WORKER", "main")
        name = f"offpath_test_{worker}_{os.getpid()}_{next(self._names)}"
        with self._connection() as connection:
            statement = f'CREATE DATABASE "{name}" TEMPLATE "{template}"'
            # page by page through the log, a copy of all our tables costs four times as much
            by_file = template != "template0" and connection.info.server_version >= _STRATEGIES
            connection.execute((statement + " STRATEGY FILE_COPY" * by_file).encode())
        return with_database(self.server, name)

    def from_template(self, name: str, build: Callable[[str], None]) -> str:
        """A copy of the database that ``build(url)`` filled once; returns the copy's URL.

        ``name`` identifies the template within this process. ``build`` must leave no connection
        open: Postgres copies only a database that nobody uses.
        """
        if name not in self._templates:
            url = self.create()
            build(url)
            self._templates[name] = _database_of(url)
        return self.create(self._templates[name])

    def drop(self, url: str) -> None:
        """Drop a database, whoever is still connected."""
        with self._connection() as connection:
            connection.execute(
                f'DROP DATABASE IF EXISTS "{_database_of(url)}" WITH (FORCE)'.encode()
            )

    def close(self) -> None:
        """Drop the templates."""
        for name in self._templates.values():
            self.drop(with_database(self.server, name))
        self._templates.clear()

    def _connection(self) -> psycopg.Connection[Any]:
        import psycopg

        return psycopg.connect(self.server, autocommit=True)


def _database_of(url: str) -> str:
    return urlsplit(url).path.lstrip("/")


def migrate(url: str) -> None:
    """Bring a database's schema up to date, also from within a running loop."""
    from offpath.store.postgres import PostgresStore

    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, PostgresStore(url).migrate()).result()


# -- a server of our own ---------------------------------------------------------------------------


@dataclass(slots=True)
class PostgresCluster:
    """A private cluster in a temporary folder, for tests that stop it and runs without a server."""

    binaries: Path
    folder: Path
    port: int
    account: str | None
    """The system account it runs as: Postgres refuses to run as root."""
    most_connections: int = 200
    """Its ``max_connections``, from the next start on."""

    @classmethod
    def create(cls, binaries: Path | None = None) -> PostgresCluster:
        """Initialise a cluster on a free port; it is not started. Raises :class:`NoServer`."""
        binaries = binaries or postgres_binaries()
        account = "postgres" if os.geteuid() == 0 else None
        folder = Path(tempfile.mkdtemp(prefix="offpath-pg-", dir=scratch()))
        cluster = cls(binaries, folder, free_port(), account)
        if account:
            shutil.chown(folder, account)
        cluster._run("initdb", "-D", cluster._data, "-U", "postgres", "-A", "trust", "-E", "UTF8",
                     "--locale=C", "--no-sync")  # fmt: skip
        return cluster

    @property
    def url(self) -> str:
        """The superuser's URL of its ``postgres`` database."""
        return f"postgresql://postgres@127.0.0.1:{self.port}/postgres"

    def start(self) -> None:
        """Start it and wait until it accepts connections."""
        settings = {
            "port": str(self.port),
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": str(self.folder),
            "max_connections": str(self.most_connections),
            "max_prepared_transactions": "4",  # for commits in two phases
            # the folder is thrown away: nothing here outlives a power cut anyway, while a crash of
            # the server alone loses nothing without fsync
            "fsync": "off",
            # whole pages in the log mend what a power cut tore; each copy of a template would
            # have them written again, since it begins with a checkpoint
            "full_page_writes": "off",
        }
        options = " ".join(f"-c {key}={value}" for key, value in settings.items())
        log = str(self.folder / "log")
        self._run("pg_ctl", "-D", self._data, "-w", "-t", "60", "-l", log, "-o", options, "start")

    def standby(self) -> PostgresCluster:
        """A streaming standby of this server, started."""
        folder = Path(tempfile.mkdtemp(prefix="offpath-pg-", dir=scratch()))
        other = PostgresCluster(self.binaries, folder, free_port(), self.account)
        if self.account:
            shutil.chown(folder, self.account)
        other._run("pg_basebackup", "-D", other._data, "-d", self.url, "-R", "-c", "fast",
                   "--no-sync")  # fmt: skip
        other.start()
        return other

    def promote(self) -> None:
        """Make a standby a server of its own, and wait until it takes writes."""
        self._run("pg_ctl", "-D", self._data, "-w", "promote")

    def stop(self, mode: str = "fast") -> None:
        """Stop it: ``smart``, ``fast`` (cuts connections) or ``immediate`` (a crash)."""
        self._run("pg_ctl", "-D", self._data, "-w", "-m", mode, "stop")

    def restart(self, mode: str = "fast") -> None:
        """Stop and start it on the same port."""
        self.stop(mode)
        self.start()

    def destroy(self) -> None:
        """Stop it if it runs and remove everything. Idempotent."""
        if (self.folder / "data" / "postmaster.pid").exists():
            self.stop("immediate")
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def _data(self) -> str:
        return str(self.folder / "data")

    def _run(self, program: str, *arguments: str) -> None:
        command = [str(self.binaries / program), *arguments]
        # a file, not a pipe: the server inherits it and would keep a pipe open for ever
        with (self.folder.parent / f"{self.folder.name}.out").open("w+") as output:
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                user=self.account, group=self.account, cwd="/", check=False,
                extra_groups=[] if self.account else None,
            )  # fmt: skip
            output.seek(0)
            text = output.read()
        Path(output.name).unlink(missing_ok=True)
        if done.returncode:
            raise NoServer(f"{program} failed with {done.returncode}:\n{text}{self._log()}")

    def _log(self) -> str:
        log = self.folder / "log"
        return log.read_text(errors="replace")[-2000:] if log.exists() else ""


def postgres_binaries() -> Path:
    """The folder of the newest installed server programs. Raises :class:`NoServer`."""
    packaged = Path("/usr/lib/postgresql").glob("*/bin/initdb")
    newest = sorted(packaged, key=lambda path: float(path.parts[-3]))
    if newest:
        return newest[-1].parent
    found = shutil.which("initdb")
    if found:
        return Path(found).resolve().parent
    raise NoServer(f"Postgres is not installed; install it, or name a server in {VARIABLE}")


def free_port() -> int:
    """A TCP port of 127.0.0.1 that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


if __name__ == "__main__":
    try:
        sys.stdout.write(find_postgres() + "\n")
    except NoServer as reason:
        sys.exit(str(reason))
