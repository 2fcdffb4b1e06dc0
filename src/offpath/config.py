"""Settings: argument > environment (``OFFPATH_*``) > pyproject.toml (``[tool.offpath]``) > default.

Durations are seconds; in the environment and in the project file they may have a unit
(``500ms``, ``30s``, ``5m``, ``12h``, ``7d``), and ``forever`` where a limit can be lifted.
"""

from __future__ import annotations

import logging
import math
import os
import re
import stat
from collections.abc import Iterable, Mapping
from datetime import timedelta
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints

import msgspec
from msgspec import Meta, Struct

from offpath.errors import ConfigurationError, InvalidArgument
from offpath.model.durations import seconds_of
from offpath.model.redact import HIDDEN, redact_url
from offpath.model.schema_url import in_schema_of
from offpath.model.served import FORM, OTHERS, Dispatch, by_order, by_queue, refused_queues

PREFIX = "OFFPATH_"
MEMORY_URL = "memory://"

_DAY = 86_400.0
_log = logging.getLogger("offpath.config")

Count = Annotated[int, Meta(ge=1, le=1_000_000)]
Seconds = Annotated[float, Meta(ge=0, le=1e10)]
SomeSeconds = Annotated[float, Meta(gt=0, le=1e10)]

LogErrors = Literal["type", "text", "traceback"]
"""The type of an error, its text as it was recorded too, or its traceback as well."""


class Settings(Struct, frozen=True, kw_only=True):
    """The settings of an app and its workers. Made by :func:`load_settings`, or by hand for
    tests.
    """

    url: str = MEMORY_URL
    """The address of the store: ``memory://``, ``sqlite:///work.db`` or ``postgresql://…``."""
    schema: str | None = None
    """The schema of a Postgres store, or the beginning of its tables' names on SQLite: two services
    share a database and see nothing of each other. It becomes a part of ``url``."""
    app: str | None = None
    """The app that the command line works with, as ``module:attribute``."""
    concurrency: Count = 100
    """Jobs that one worker process runs at once."""
    processes: Annotated[int, Meta(ge=1, le=256)] = 1
    """Worker processes that ``offpath worker`` starts."""
    threads: Count | None = None
    """Sync handlers that run at once; None is as many as ``concurrency``."""
    queues: dict[str, Count | None] = {}
    """Queues that a worker serves, and how many jobs of each one process runs at once (None: as
    many as it has slots). None means all; ``*`` stands for all others. ``emails:5,reports``."""
    dispatch: Dispatch | dict[str, Dispatch] = "priority"
    """The order of a queue's jobs: by priority, by age, or by the turn of each fair_key."""
    lease_seconds: Annotated[float, Meta(ge=0.1, le=_DAY)] = 30.0
    """The time for which a worker may be out of touch before its jobs are given to others."""
    poll_interval: SomeSeconds = 1.0
    """The longest time between two looks for work, when nothing announces any."""
    drain_timeout: Seconds = 30.0
    """The time that a stopping worker leaves to running jobs."""
    abort: Literal["release", "fail"] = "release"
    """The fate of a job that a stopping worker aborts: given back, or failed."""
    backlog_after: Seconds = 60.0
    """The time for which a worker is full, with due work, before ``on_backlog`` is called."""
    backlog_every: SomeSeconds | None = None
    """The time between two calls of ``on_backlog`` while the backlog lasts; None: one call."""
    max_deliveries: Annotated[int, Meta(ge=1, le=10_000)] = 3
    """The workers that may die holding a job before it is dead, if it ran alone by then."""
    keep_succeeded: Seconds | None = 7 * _DAY
    """The time for which succeeded jobs and their results are kept; None for ever."""
    keep_dead: Seconds | None = 30 * _DAY
    """The time for which dead jobs are kept; None for ever."""
    keep_cancelled: Seconds | None = 7 * _DAY
    """The time for which cancelled jobs are kept; None for ever."""
    max_input_bytes: Annotated[int, Meta(ge=1, le=2**29)] = 2**20
    """The largest encoded input that is accepted."""
    max_result_bytes: Annotated[int, Meta(ge=1, le=2**29)] = 2**20
    """The largest encoded result that is accepted."""
    max_children: Annotated[int, Meta(ge=1, le=10_000_000)] = 10_000
    """The most jobs that an attempt queues in one transaction; those that can go in pieces do."""
    start_timeout: Seconds | None = 300.0
    """The time that ``offpath worker`` waits at its start for a store; None: for ever."""
    store_timeout: SomeSeconds = 5.0
    """The time that a call waits for each answer of a Postgres server; then it is given up."""
    migrate: bool = False
    """True if opening a Postgres app brings its schema up to date."""
    keep_delivered: Seconds | None = _DAY
    """The time for which delivered events are kept, and can be replayed; None for ever."""
    keep_applied: Seconds | None = 30 * _DAY
    """The time for which applied inbox messages are kept, and repeats are known; None: for ever."""
    keep_log: Seconds | None = 90 * _DAY
    """The time for which the log keeps events that every router has passed; None for ever."""
    keep_actions: Seconds | None = 365 * _DAY
    """The time for which actions of operators are kept; None for ever."""
    max_outbox_attempts: Annotated[int, Meta(ge=1, le=10_000)] = 10
    """The number of attempts after which an event is dead."""
    max_inbox_attempts: Annotated[int, Meta(ge=1, le=10_000)] = 10
    """The number of attempts after which an inbox message is dead."""
    log_errors: LogErrors = "type"
    """The part of a failed attempt's error that its log line shows; a text may quote arguments."""
    relays: bool = True
    """True if workers relay the outbox and drain the inbox."""
    webhook_networks: tuple[str, ...] = ()
    """Networks (CIDR) that webhooks may be posted to although they are not public."""
    secret_key: str | None = None
    """Keys under which webhook secrets are stored, the newest first, separated by commas."""
    webhook_http: bool = False
    """True if webhooks may be posted over plain http."""
    redact: tuple[str, ...] = ()
    """Field names to hide in logs, beside the built-in ones (password, token, …)."""
    health_port: Annotated[int, Meta(ge=0, le=65_535)] | None = None
    """The port of a worker's health probe; 0: any free one; None: without a probe."""
    health_host: str = "127.0.0.1"
    """The address that the probe listens on. Others than the machine's own ask for a token."""
    health_token: str | None = None
    """The token that callers of the probe have to send, as ``Authorization: Bearer …``."""
    health_open: bool = False
    """True if the probe may listen, without a token, on an address that others reach."""
    on_dead_loop: Literal["restart", "exit"] = "restart"
    """The consequence of a loop's death: it is started again, or the worker ends with code 1."""
    job_age_limit: Seconds | None = 300.0
    """The time for which the oldest job of a queue may be due before the fleet is unhealthy; None
    for ever.
    """
    job_age_limits: dict[str, Seconds] = {}
    """The same for single queues."""
    event_age_limit: Seconds | None = 300.0
    """The time for which the oldest event may be undelivered before the fleet is unhealthy."""
    inbox_age_limit: Seconds | None = 300.0
    """The time for which the oldest inbound message may be unapplied before the fleet is
    unhealthy.
    """
    dead_age_limit: Seconds | None = 7 * _DAY
    """The time for which the oldest dead letter may be unresolved before the fleet is unhealthy."""
    router_age_limit: Seconds | None = 300.0
    """The time for which the oldest event of an open router may be unrouted before the fleet is
    unhealthy.
    """
    death_limit: Annotated[int, Meta(ge=0, le=1_000_000)] = 100
    """New dead letters of one task, stream, source or router in 15 minutes that the fleet bears."""
    death_share_limit: Annotated[float, Meta(ge=0, le=1)] = 0.5
    """The share of dead letters in what ended meanwhile that it bears, from 5 on; 1 is any."""
    findings: Literal["warn", "red"] = "warn"
    """The weight of a finding that nobody has accepted: a warning, or an unhealthy fleet."""
    metric_names: Count = 100
    """Names of one kind (queues of a task, streams, …) that have metric series of their own."""
    origins: tuple[tuple[str, str], ...] = ()
    """Field and origin of what was not left at its default; see :meth:`sources`."""

    def __post_init__(self) -> None:
        """Put the schema into the URL, which is all that leads to a store."""
        if self.schema is not None:
            msgspec.structs.force_setattr(self, "url", in_schema_of(self.url, self.schema))

    @property
    def served_queues(self) -> tuple[str, ...]:
        """The names of the queues that a worker serves; empty means all."""
        return () if OTHERS in self.queues else tuple(self.queues)

    @property
    def queue_limits(self) -> dict[str, int]:
        """The number of jobs of a queue that one worker process runs at once, where that is
        limited.
        """
        return {name: most for name, most in self.queues.items() if most is not None}

    @property
    def handler_threads(self) -> int:
        """Sync handlers that run at once."""
        return self.threads or self.concurrency

    @property
    def project_file(self) -> str | None:
        """The project file that some of the settings are from."""
        files = (place.removesuffix(_TABLE) for _, place in self.origins if place.endswith(_TABLE))
        return next(files, None)

    def sources(self) -> dict[str, str]:
        """The source of each setting's value."""
        found = dict(self.origins)
        return {name: found.get(name, "default") for name in FIELDS}

    def shown(self) -> dict[str, Any]:
        """The settings as they may be printed: passwords hidden."""
        values = {name: getattr(self, name) for name in FIELDS}
        hidden = {name: HIDDEN for name in ("health_token", "secret_key") if values[name]}
        return {**values, "url": redact_url(self.url), **hidden}

    def __repr__(self) -> str:
        """All settings, without passwords."""
        inside = ", ".join(f"{name}={value!r}" for name, value in self.shown().items())
        return f"Settings({inside})"


FIELDS = tuple(name for name in Settings.__struct_fields__ if name != "origins")
"""The names of the settings."""

_HINTS: dict[str, Any] = get_type_hints(Settings, include_extras=True)
_FOREVER = frozenset(
    {
        *("keep_succeeded", "keep_dead", "keep_cancelled", "keep_delivered", "keep_applied"),
        *("start_timeout", "router_age_limit", "keep_log", "keep_actions"),
        *("job_age_limit", "event_age_limit", "inbox_age_limit", "dead_age_limit"),
    }
)
_DURATIONS = _FOREVER | {
    *("lease_seconds", "poll_interval", "drain_timeout", "store_timeout"),
    *("backlog_after", "backlog_every"),
}
# Kubernetes sets some of these for a service that is called offpath; an economy reads its own.
_NOT_OURS = re.compile(
    r"OFFPATH_(TEST_.*|ACTOR|ECONOMY_.*|DASHBOARD_.*|SIGNING_SECRET.*|SERVICE_HOST|SERVICE_PORT.*|PORT|PORT_\d+_.*)"
)

_Found = tuple[Any, str]
"""A value as it was given, and where."""


def load_settings(
    *,
    environ: Mapping[str, str] | None = None,
    directory: Path | str | None = None,
    database_url: bool = False,
    **given: Any,  # noqa: ANN401 - checked against the fields
) -> Settings:
    """Settings from everywhere, the nearest first. None as an argument means: not given.

    ``environ`` and ``directory`` stand for the process's own; the project file is looked for from
    ``directory`` upwards. With ``database_url``, ``DATABASE_URL`` is read where nothing else names
    a database, as the command line does.

    Raises ConfigurationError, which names the place of the value and what it should be.
    """
    variables = os.environ if environ is None else environ
    found: dict[str, _Found] = {}
    found.update(_from_project(Path.cwd() if directory is None else Path(directory)))
    found.update(_from_environment(variables))
    found.update(_from_arguments(given))
    # Last of all: it is the variable of every library, and often names a service's other database.
    if database_url and "url" not in found and variables.get("DATABASE_URL"):
        found["url"] = (variables["DATABASE_URL"], "environment (DATABASE_URL)")
    values: dict[str, Any] = {name: _value(name, *one) for name, one in found.items()}
    origins = tuple((name, where) for name, (_, where) in found.items())
    return Settings(**values, origins=origins)


def normal_url(url: str) -> str:
    """``url`` with a scheme of ours; raises ConfigurationError for another kind of database.

    ``postgres://`` and SQLAlchemy's ``postgresql+driver://`` and ``sqlite+driver://`` are taken.
    """
    text = url.strip()
    if "://" not in text:
        return _without_scheme(text)
    scheme, rest = text.split("://", 1)
    name = scheme.lower().partition("+")[0]
    kind = _SCHEMES.get(name) or (name if name in other_backends() else None)
    if kind is None:
        raise ConfigurationError(
            f"{redact_url(text)} names a database that offpath does not work on: "
            "use postgresql://user:password@host/database, sqlite:///file.db or memory://"
        )
    return f"{kind}://{rest}"


_SCHEMES = {"postgres": "postgresql", "sqlite3": "sqlite", "valkey": "redis", "valkeys": "rediss"}
_SCHEMES |= {name: name for name in ("postgresql", "sqlite", "memory", "redis", "rediss")}

BACKENDS = "offpath.backends"
"""The group of entry points in which a package names its backend, by the scheme of its URLs."""


def other_backends() -> frozenset[str]:
    """The schemes of backends that installed packages bring."""
    from importlib.metadata import entry_points  # slow to load, and rarely needed

    return frozenset(point.name for point in entry_points(group=BACKENDS))


def _without_scheme(text: str) -> str:
    if text.rstrip(":") == "memory":
        return MEMORY_URL
    if re.match(r"\w+\s*=", text):  # libpq's own form: host=… dbname=…
        return text
    shown = redact_url(text) or "an empty text"
    raise ConfigurationError(
        f"{shown} is not a database URL: write sqlite:///file.db, "
        "postgresql://user:password@host/database or memory://"
    )


# -- where values come from ----------------------------------------------------------------


def _from_arguments(given: Mapping[str, Any]) -> dict[str, _Found]:
    if unknown := sorted(set(given) - set(FIELDS)):
        raise ConfigurationError(f"there is no setting {_unknown(unknown, FIELDS)}")
    return {name: (one, "argument") for name, one in given.items() if one is not None}


def _from_environment(variables: Mapping[str, str]) -> dict[str, _Found]:
    known = {f"{PREFIX}{name.upper()}": name for name in FIELDS}
    _warn_of_unknown(variables, known)
    plain = {
        name: (variables[variable], f"environment ({variable})")
        for variable, name in known.items()
        if variables.get(variable)
    }
    return plain | _from_secret_files(variables)


def _from_secret_files(variables: Mapping[str, str]) -> dict[str, _Found]:
    """Settings in files, as Docker and Kubernetes hand out secrets."""
    return {
        name: (_secret_in(variables, variable), f"file {variables[variable]} ({variable})")
        for variable, name in _SECRET_FILES.items()
        if variables.get(variable)
    }


def _secret_in(variables: Mapping[str, str], variable: str) -> str:
    plain, path = variable.removesuffix("_FILE"), variables[variable]
    if variables.get(plain):
        raise ConfigurationError(f"{plain} and {variable} are both set: unset one of them")
    try:
        text = Path(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{variable}: cannot read {path}: {error}") from error
    if not text:
        raise ConfigurationError(f"{variable}: {path} is empty")
    return text


_SECRET_FILES = {f"{PREFIX}URL_FILE": "url", f"{PREFIX}SECRET_KEY_FILE": "secret_key"}
_TABLE = " [tool.offpath]"


def _from_project(directory: Path) -> dict[str, _Found]:
    table, path = _project_table(directory)
    names = {key: key.replace("-", "_") for key in table}
    if unknown := sorted(key for key, name in names.items() if name not in FIELDS):
        raise ConfigurationError(
            f"{path}: [tool.offpath] has no setting {_unknown(unknown, FIELDS)}"
        )
    return {names[key]: (value, f"{path}{_TABLE}") for key, value in table.items()}


def _project_table(directory: Path) -> tuple[dict[str, Any], Path | None]:
    path = _project_file(directory)
    if path is None:
        return {}, None
    try:
        table = _table_of(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"cannot read {path}: {error}") from error
    if table and (distrust := _distrust(path)):
        _log.warning("%s is not read: %s", path, distrust)
        return {}, None
    if not isinstance(table, dict):
        raise ConfigurationError(f"{path}: tool.offpath must be a table: [tool.offpath]")
    return table, path


@lru_cache(maxsize=4)  # each app of a process asks for the same file
def _table_of(text: str) -> dict[str, Any]:
    import tomllib  # many deployments have no project file

    # A project file that does not speak of us is not ours to judge.
    tool = tomllib.loads(text).get("tool", {}) if "offpath" in text else {}
    return tool.get("offpath", {})  # type: ignore[no-any-return]  # the caller looks at it


def _project_file(directory: Path) -> Path | None:
    """The nearest project file, looked for as far as the project goes.

    A repository and a home are where it ends: a file above them belongs to something else.
    """
    start = directory.absolute()
    for folder in (start, *start.parents):
        path = folder / "pyproject.toml"
        if path.is_file():
            return path
        if (folder / ".git").exists() or folder == Path.home():
            break
    return None


def _distrust(path: Path) -> str | None:
    """The reason why a project file is not obeyed; None when it is.

    It names code to import and where jobs and webhooks go, so only who runs this process, or the
    machine's administrator, may have written it.
    """
    if not hasattr(os, "geteuid"):  # Windows has no such owners and modes
        return None
    found = path.stat()
    if found.st_uid not in {os.geteuid(), 0}:
        return f"it belongs to another user ({found.st_uid}); make it yours, or set OFFPATH_*"
    if found.st_mode & stat.S_IWOTH:
        return "everybody may write it; run: chmod o-w pyproject.toml"
    return None


# -- what a value is -----------------------------------------------------------------------


def _value(name: str, given: object, where: str) -> object:
    try:
        prepared = _prepared(name, given)
        value = msgspec.convert(prepared, _HINTS[name], strict=not isinstance(given, str))
    except (msgspec.ValidationError, TypeError, InvalidArgument) as error:
        raise ConfigurationError(f"{name}, from {where}: {error}{_hint(name)}") from error
    if name == "queues" and (refused := refused_queues(value)):
        raise ConfigurationError(f"{name}, from {where}: {refused}")
    return normal_url(value) if name == "url" else value


def _prepared(name: str, given: object) -> object:
    if isinstance(given, timedelta):
        return given.total_seconds()
    if name in _FOREVER and given in {"forever", math.inf}:
        return None
    if name in _READ_BY:
        return _READ_BY[name][0](given)
    if not isinstance(given, str):
        return given
    if name in _DURATIONS:
        return _seconds(given)
    if name in _LISTS:
        return tuple(part.strip() for part in given.split(",") if part.strip())
    return {"yes": True, "on": True, "no": False, "off": False}.get(given, given)


_LISTS = frozenset({"redact", "webhook_networks"})


def _seconds(given: object) -> object:
    """A duration with a unit as seconds; anything else as it is."""
    found = seconds_of(given) if isinstance(given, str) else None
    return given if found is None else found


def _age_by_queue(given: object) -> object:
    """``mail=10m, bulk=1h``, or a table of the same; anything else as it is."""
    if isinstance(given, str):
        given = dict(part.partition("=")[::2] for part in given.split(",") if "=" in part) or given
    if not isinstance(given, dict):
        return given
    return {str(name).strip(): _seconds(limit) for name, limit in given.items()}


def _hint(name: str) -> str:
    if name in _FOREVER:
        return " (seconds, a duration such as 7d, or forever)"
    if name in _DURATIONS:
        return " (seconds, or a duration such as 500ms or 30s)"
    return f" ({_READ_BY[name][1]})" if name in _READ_BY else ""


_READ_BY = {
    "queues": (by_queue, "queues, comma-separated, each with or without a limit, as emails:5,a"),
    "dispatch": (by_order, FORM),
    "job_age_limits": (_age_by_queue, "queue=duration, comma-separated, as mail=10m,bulk=1h"),
}


def _warn_of_unknown(variables: Mapping[str, str], known: Mapping[str, str]) -> None:
    taken = {*known, *_SECRET_FILES}
    unknown = sorted(
        name
        for name in variables
        if name.startswith(PREFIX) and name not in taken and not _NOT_OURS.fullmatch(name)
    )
    if unknown:
        _log.warning("environment: there is no setting %s", _unknown(unknown, taken))


def _unknown(names: Iterable[str], known: Iterable[str]) -> str:
    """The unknown names, each with what was probably meant."""
    choices = {one.removeprefix(PREFIX): one for one in known}
    return "; ".join(f"{name}{_meant(name, choices)}" for name in names)


def _meant(name: str, choices: Mapping[str, str]) -> str:
    import difflib

    bare = name.removeprefix(PREFIX).replace("-", "_")
    near = difflib.get_close_matches(bare, choices, n=1, cutoff=0.5)
    return f" (did you mean {choices[near[0]]}?)" if near else ""
