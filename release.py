#!/usr/bin/env python3
"""The parts of a release, made by one command: ``python3 release.py``.

It builds wheel and source archive, writes a software bill of materials beside them (CycloneDX, from
the locked dependencies of all extras), tries the wheel in an empty environment, alone and with each
extra alone, and attests the files where the host can do that. Nothing is uploaded.
``python3 check.py`` comes first.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent
DIST = ROOT / "dist"
BIN = ROOT / ".venv" / "bin"


JOB = """
import asyncio, offpath
from offpath.testing import drain
extensions = globals().get("extensions", [])
app = offpath.App("memory://", auto_start=False, extensions=extensions)

@app.task
async def add(a: int, b: int) -> int:
    return a + b

async def main() -> None:
    async with app:
        handle = await add.enqueue(1, 2)
        await drain(app)
        assert await handle.result() == 3

asyncio.run(main())
"""
"""A job that runs to its end, in every environment."""
SMOKE = {
    "postgres": (
        "import psycopg, psycopg_pool, offpath; offpath.App('postgresql://nowhere/x').store()"
    ),
    "metrics": (
        "import offpath; from offpath.runtime.prometheus import exposition\n"
        "exposition(offpath.App().metrics)"
    ),
    "redis": "from offpath.events.dispatchers import RedisDispatcher",
    "kafka": "from offpath.events.dispatchers import KafkaDispatcher; KafkaDispatcher",
    "sqs": "from offpath.events.dispatchers import SqsDispatcher; SqsDispatcher",
    "nats": "from offpath.events.dispatchers import NatsDispatcher",
    "rabbitmq": "from offpath.events.dispatchers import RabbitDispatcher",
    "webhooks": "import aiohttp, cryptography, offpath; offpath.App().webhooks",
    "economy": "import offpath.economy",
    "web": "import starlette, offpath.web",
    "django": (
        "from django.conf import settings\n"
        "settings.configure(INSTALLED_APPS=['offpath.contrib.django'])\n"
        "import django; django.setup()\n"
        "from offpath.contrib.django import OffpathBackend"
    ),
    "fastapi": "from offpath.contrib.fastapi import bound, later, lifespan",
    "flask": (
        "import flask\nfrom offpath.contrib.flask import Offpath\n"
        "Offpath().init_app(flask.Flask('x'))"
    ),
    "opentelemetry": (
        "from offpath.contrib.opentelemetry import OpenTelemetry; extensions = [OpenTelemetry()]"
    ),
    "sentry": (
        "import sentry_sdk\nfrom offpath.contrib.sentry import OffpathIntegration\n"
        "sentry_sdk.init(integrations=[OffpathIntegration()])"
    ),
    "structlog": "from offpath.contrib.structlog import BindJob; extensions = [BindJob()]",
    "sqlalchemy": (
        "from offpath.contrib.sqlalchemy import attach; from offpath.contrib.alembic import upgrade"
    ),
    "reload": (
        "from pathlib import Path; from offpath.cli.reload import Reloader; Reloader((), Path())"
    ),
    "dashboard": "import jinja2, uvicorn, offpath.web; offpath.web.dashboard",
}
"""What is done with each extra alone."""


def say(text: str) -> None:
    """Print at once: tools write to the same terminal."""
    print(text, flush=True)


def run(*command: str | Path, **environment: str) -> None:
    """Run a tool in the project's folder; ends the release when it fails."""
    say(f"== {' '.join(map(str, command))}")
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, **environment}, check=False)
    if done.returncode:
        sys.exit(f"release.py: {command[0]} failed")


def uv() -> str:
    """The uv of the environment or of the machine."""
    own = BIN / "uv"
    found = str(own) if own.exists() else shutil.which("uv")
    return found or sys.exit("release.py: uv is missing; python3 check.py installs it")


def require_clean_tree() -> None:
    """End the release when there are changes that no commit has: nobody could build it again."""
    status = subprocess.run(
        ("git", "status", "--porcelain"), cwd=ROOT, capture_output=True, text=True, check=True
    )
    if status.stdout:
        sys.exit(f"release.py: commit or drop these first:\n{status.stdout}")


def build() -> list[Path]:
    """Wheel and source archive, alone in ``dist``."""
    shutil.rmtree(DIST, ignore_errors=True)
    run(uv(), "build", "--quiet", "--out-dir", DIST)
    return sorted([*DIST.glob("*.whl"), *DIST.glob("*.tar.gz")])


def bill_of_materials(target: Path) -> None:
    """Write every component that all extras install, by the lock file, with version and licence.

    An environment that holds just these is made for it, since licences are in what is installed.
    """
    with tempfile.TemporaryDirectory(prefix="offpath-sbom-") as folder:
        sync = ("sync", "--frozen", "--no-dev", "--all-extras", "--no-editable", "--quiet")
        run(uv(), *sync, "--python", sys.executable, UV_PROJECT_ENVIRONMENT=folder)
        run(BIN / "cyclonedx-py", "environment", Path(folder) / "bin" / "python",
            "--pyproject", ROOT / "pyproject.toml", "--output-reproducible",
            "--output-format", "JSON", "--output-file", target)  # fmt: skip


def try_out(wheel: Path) -> None:
    """Install the wheel in an empty environment and run its main command there."""
    with tempfile.TemporaryDirectory(prefix="offpath-try-") as folder:
        run(uv(), "venv", "--quiet", "--python", sys.executable, folder)
        run(uv(), "pip", "install", "--quiet", wheel, VIRTUAL_ENV=folder)
        run(Path(folder) / "bin" / "offpath", "demo")


def extras() -> list[str]:
    """The extras of the project, but for the one that is several."""
    described = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return [name for name in described["optional-dependencies"] if name != "all"]


def try_extras(wheel: Path) -> None:
    """Install the wheel with each extra alone in an empty environment, and use what it is for."""
    for extra in extras():
        with tempfile.TemporaryDirectory() as folder:
            run(uv(), "venv", "--quiet", "--python", sys.executable, folder)
            wanted = f"offpath[{extra}] @ {wheel.resolve().as_uri()}"
            run(uv(), "pip", "install", "--quiet", wanted, VIRTUAL_ENV=folder)
            python = Path(folder) / "bin" / "python"
            run(python, "-I", "-c", f"{SMOKE[extra]}\n{JOB}")


def attest(files: list[Path]) -> None:
    """Sign for where these files were built (PEP 740), or say why that cannot be done here."""
    if "ACTIONS_ID_TOKEN_REQUEST_URL" not in os.environ:
        say(
            "release.py: not attested: this host gives no identity token. On the release's own "
            "host this step runs `pypi-attestations sign` over the files above"
        )
        return
    run(uv(), "tool", "run", "pypi-attestations", "sign", *files)


def main() -> int:
    """Build, list, try, attest; 0 when all of it went well."""
    require_clean_tree()
    files = build()
    bill_of_materials(DIST / "offpath.cdx.json")
    wheel = next(file for file in files if file.suffix == ".whl")
    try_out(wheel)
    try_extras(wheel)
    attest(files)
    say("\n".join(f"{path.name}: {path.stat().st_size} bytes" for path in sorted(DIST.iterdir())))
    return 0


if __name__ == "__main__":
    sys.exit(main())
