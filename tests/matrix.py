"""The environments of ``check.py matrix``: each supported Python, and the oldest frameworks.

Like :mod:`tests.pythons` it needs nothing but the standard library.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.brokers import REDIS_PROGRAM, VALKEY
from tests.pythons import find_python

PREFIX: Final = "matrix-"
FRAMEWORKS: Final = (
    *("web", "django", "fastapi", "flask", "opentelemetry", "sentry", "sqlalchemy", "structlog"),
    *("kafka", "sqs"),
)
"""The extras whose oldest versions are tried."""
_SUITES: Final = (
    "pytest -q tests/unit --ignore tests/unit/store/postgres",
    "pytest -q tests/conformance",
    "pytest -q tests/contrib",
    # connections of drivers that Python brings: what they tell of themselves differs
    "pytest -q tests/integration/within",
)
_FRAMEWORK_SUITES: Final = (
    # old frameworks use what newer libraries below them call deprecated
    "pytest -q -W ignore::DeprecationWarning tests/contrib",
    "pytest -q tests/unit/web tests/integration/test_dashboard_mounts.py",
    "pytest -q tests/integration/test_dispatch_kafka.py tests/integration/test_dispatch_sqs.py",
    "pytest -q tests/integration/test_dispatch_kafka_broker.py",
)
_ON_VALKEY: Final = (
    "pytest -q tests/conformance -k redis",
    "pytest -q tests/integration/test_redis_server.py tests/integration/test_redis_kills.py",
)
_DJANGO_SUITES: Final = ("pytest -q tests/contrib/django tests/contrib/dashboard",)
_DJANGOS: Final = {"6.0": "3.12"}
"""Versions of Django between that of a plain run and the newest, with a Python of each."""
_OLDEST_TRACES: Final = (
    # packages of one release: an SDK works with its own API only
    *("opentelemetry-sdk==1.30.0", "opentelemetry-exporter-otlp-proto-http==1.30.0"),
    *("opentelemetry-instrumentation==0.51b0", "opentelemetry-distro==0.51b0"),
)
_OLDEST_CLOUD: Final = ("boto3==1.37.1",)
"""What the server in the tests of SQS stands on: of the release that the oldest client wants."""
_LOWEST: Final = re.compile(r"^(?P<name>[a-z0-9-]+)(\[[a-z,]+\])?>=(?P<version>[0-9.]+)")


@dataclass(frozen=True, slots=True)
class Environment:
    """A virtual environment with the locked dependencies, and what is run in it."""

    name: str
    """The step's name."""
    python: str
    """The version, as ``3.12``."""
    commands: tuple[str, ...]
    pinned: tuple[str, ...] = ()
    """Requirements that replace locked ones."""
    variables: tuple[tuple[str, str], ...] = ()
    """Variables of the environment in which its commands run."""

    @property
    def folder(self) -> str:
        """The name of its folder in the checkout."""
        return f".venv-{self.name}"

    def interpreter(self) -> Path:
        """The Python to make it with. Raises ``NoPython``."""
        return find_python(self.python)


def environments(project: Path) -> dict[str, Environment]:
    """Every environment, by the name of its step. ``project`` is the checkout's pyproject.toml."""
    described = tomllib.loads(project.read_text("utf-8"))["project"]
    versions = [
        found.group(1)
        for line in described["classifiers"]
        if (found := re.fullmatch(r"Programming Language :: Python :: (3\.\d+)", line))
    ]
    # the first one has run everything in a plain run
    made = [Environment(f"{PREFIX}{version}", version, _SUITES) for version in versions[1:]]
    oldest = tuple(
        f"{found['name']}=={found['version']}"
        for extra in FRAMEWORKS
        for line in described["optional-dependencies"][extra]
        if (found := _LOWEST.match(line))
    )
    # the test client of the oldest Starlette wants a package that the newest one does not
    oldest += ("httpx", *_OLDEST_TRACES, *_OLDEST_CLOUD)
    made.append(Environment(f"{PREFIX}oldest", versions[0], _FRAMEWORK_SUITES, oldest))
    for version, python in _DJANGOS.items():
        pin = (f"django=={version}.*",)
        made.append(Environment(f"{PREFIX}django-{version}", python, _DJANGO_SUITES, pin))
    valkey = ((REDIS_PROGRAM, VALKEY),)
    made.append(Environment(f"{PREFIX}valkey", versions[0], _ON_VALKEY, variables=valkey))
    return {one.name: one for one in made}
