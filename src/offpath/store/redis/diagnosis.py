"""The meaning of a server's settings for what it acknowledges."""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct

from offpath.errors import ConfigurationError, StoreError
from offpath.store.capabilities import Durability
from offpath.store.protocol import Finding, Level
from offpath.store.redis.address import ServerAddress
from offpath.store.redis.connection import UNSEEN, RedisConnection

_SETTINGS: Final = (
    "appendonly",
    "appendfsync",
    "maxmemory",
    "maxmemory-policy",
    "min-replicas-to-write",
)


class Diagnosis(Struct, frozen=True, kw_only=True):
    """The facts that were read of a server."""

    version: str
    server: str
    role: str
    replicas: int
    settings: dict[str, str] | None
    """None where the server does not tell its settings, as managed ones do not."""

    @property
    def durability(self) -> Durability:
        """The faults that an acknowledged write of this server outlives."""
        if self.settings is None:
            return Durability.UNKNOWN
        if self.settings.get("appendonly") != "yes":
            return Durability.PROCESS
        always = self.settings.get("appendfsync") == "always"
        return Durability.FSYNC if always else Durability.SECOND

    def refuse(self, address: ServerAddress) -> None:
        """Raise ``ConfigurationError`` for a server that forgets what it has acknowledged."""
        policy = (self.settings or {}).get("maxmemory-policy", "noeviction")
        if policy != "noeviction":
            raise ConfigurationError(
                f"this server throws keys away when it is full (maxmemory-policy {policy}), "
                "jobs among them: set maxmemory-policy noeviction"
            )
        if self.role != "master":
            raise ConfigurationError("this server is a replica: give the address of its primary")
        accepted = address.durability is Durability.PROCESS
        if self.durability is Durability.PROCESS and not accepted:
            raise ConfigurationError(
                "this server forgets everything when it ends (appendonly no): set appendonly yes, "
                "or write ?durability=process into the URL if that is meant"
            )

    def findings(self, address: ServerAddress) -> list[Finding]:
        """The findings for whoever asks how well the store is."""
        return [self._durable(address), self._replicated(address), self._memory()]

    def _durable(self, address: ServerAddress) -> Finding:
        told = {
            Durability.PROCESS: (Level.WARNING, "nothing outlives this server (appendonly no)"),
            Durability.SECOND: (
                Level.WARNING,
                (
                    "a power cut may lose the last second (appendfsync everysec): "
                    "set appendfsync always to keep all that was acknowledged"
                ),
            ),
            Durability.FSYNC: (Level.FINE, "each write is on the disk when it returns"),
        }
        unknown = (Level.WARNING, "the server does not tell how durable it is: ask its vendor")
        level, message = told.get(self.durability, unknown)
        accepted = address.durability is self.durability
        return Finding(name="durability", level=Level.FINE if accepted else level, message=message)

    def _replicated(self, address: ServerAddress) -> Finding:
        if not self.replicas:
            return Finding(name="replicas", level=Level.FINE, message="it has no replica")
        if address.wait:
            message = f"each write waits for {address.wait} of {self.replicas} replicas"
            return Finding(name="replicas", level=Level.FINE, message=message)
        return Finding(
            name="replicas",
            level=Level.WARNING,
            message=f"a failover to one of {self.replicas} replicas may lose what was "
            "acknowledged: write ?wait=1 into the URL",
        )

    def _memory(self) -> Finding:
        if (self.settings or {}).get("maxmemory", "0") == "0":
            message = "it has no limit of memory (maxmemory 0)"
        else:
            message = "it refuses writes when its memory is full, and keeps what it has"
        return Finding(name="memory", level=Level.FINE, message=message)


def deaths(*, seen: bool) -> Finding:
    """The finding about how soon the death of a worker is known."""
    if seen:
        message = "jobs of a worker that was killed begin again within seconds"
        return Finding(name="deaths", level=Level.FINE, message=message)
    return Finding(name="deaths", level=Level.WARNING, message=UNSEEN)


async def diagnosed(connection: RedisConnection) -> Diagnosis:
    """The facts that a server tells. Raises ``StoreUnavailable``."""
    (info,) = await connection.read(["INFO"])
    facts = info if isinstance(info, dict) else _facts(info)
    return Diagnosis(
        version=str(facts.get("valkey_version") or facts.get("redis_version", "")),
        server="valkey" if "valkey_version" in facts else "redis",
        role=str(facts.get("role", "master")),
        replicas=int(facts.get("connected_slaves", 0)),
        settings=await _settings(connection),
    )


def _facts(text: bytes) -> dict[str, Any]:
    lines = (line.partition(":") for line in text.decode().splitlines() if ":" in line)
    return {name: value for name, _, value in lines}


async def _settings(connection: RedisConnection) -> dict[str, str] | None:
    try:
        (found,) = await connection.read(["CONFIG", "GET", *_SETTINGS])
    except StoreError:
        return None
    if isinstance(found, dict):
        return {_text(name): _text(value) for name, value in found.items()}
    flat = [_text(each) for each in found]
    return dict(zip(flat[::2], flat[1::2], strict=True))


def _text(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
