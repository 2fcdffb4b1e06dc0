"""PgBouncer, started for a test in front of a Postgres server.

The standard library only: the gate looks for the program before anything is installed.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from tests.servers import free_port

PACKAGE = "pgbouncer"
"""The Debian package that has the program."""
START_LIMIT = 20.0
"""Seconds in which it must accept connections."""


def pgbouncer() -> str | None:
    """The path of the program; None when it is not installed."""
    return shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")


@dataclass(slots=True)
class Pooler:
    """A pooler on a free port, which logs every client in as the user of ``server``."""

    program: str
    server: str
    """The URL of the server behind it; the database is what the client asks for."""
    mode: str = "transaction"
    size: int = 4
    """Connections to the server, for each database."""
    port: int = field(default_factory=free_port)
    folder: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="offpath-pooler-")))
    process: subprocess.Popen[bytes] | None = None

    def url(self, direct: str) -> str:
        """The URL of a database, through the pooler."""
        parts = urlsplit(direct)
        user = parts.username or "postgres"
        return parts._replace(netloc=f"{user}@127.0.0.1:{self.port}").geturl()

    def start(self) -> None:
        """Start it and wait until it accepts connections."""
        (self.folder / "pooler.ini").write_text(self._settings())
        self.folder.chmod(0o755)
        # it refuses to run as root
        (self.folder / "log").touch()
        (self.folder / "log").chmod(0o666)
        account = ["-u", "nobody"] if os.geteuid() == 0 else []
        self.process = subprocess.Popen(
            [self.program, "-q", *account, str(self.folder / "pooler.ini")],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        end = time.monotonic() + START_LIMIT
        while time.monotonic() < end and self.process.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
            except OSError:
                time.sleep(0.05)
            else:
                return
        raise RuntimeError(f"pgbouncer did not start: {(self.folder / 'log').read_text()[-1000:]}")

    def destroy(self) -> None:
        """End it, and remove its folder."""
        if self.process is not None:
            self.process.terminate()
            self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _settings(self) -> str:
        parts = urlsplit(self.server)
        secret = f" password={parts.password}" if parts.password else ""
        return f"""
[databases]
* = host={parts.hostname} port={parts.port or 5432} user={parts.username or "postgres"}{secret}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {self.port}
unix_socket_dir =
auth_type = any
pool_mode = {self.mode}
default_pool_size = {self.size}
reserve_pool_size = 0
max_client_conn = 500
ignore_startup_parameters = extra_float_digits,options,application_name
logfile = {self.folder / "log"}
"""
