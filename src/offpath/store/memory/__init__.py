"""The memory backend: fast, whole and gone with the process. The oracle of the other backends."""

from offpath.store.memory.store import MemoryStore

__all__ = ["MemoryStore"]
