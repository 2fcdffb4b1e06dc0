"""The Redis backend: some profiles of the store in a Redis or Valkey server."""

from offpath.store.redis.store import RedisStore

__all__ = ["RedisStore"]
