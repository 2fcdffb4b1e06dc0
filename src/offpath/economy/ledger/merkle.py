"""The Merkle root over the heads of all accounts, streaming: memory for one path, not for the tree.

Leaves come sorted by account. A node of an odd count moves up unchanged, so each subtree of
2**k leaves is complete and a stack of them is enough. Version 1 hashes heads; versions 2 and 3
carry each account's sum as well, so that the root says whether the ledger is balanced.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Final, NamedTuple

from msgspec import Struct

from offpath.model.ledger.records import Leaf

EMPTY: Final = "0" * 64
"""The root of nothing."""
_WIDTH = 8
_SUMMED = 2
"""The version from which on nodes carry sums."""


class Root(Struct, frozen=True):
    """A root: its hash in hex, the sum of all entries (None in version 1), how many leaves."""

    hash: str
    sum: int | None
    count: int


class _Node(NamedTuple):
    digest: bytes
    sum: int
    size: int


class Merkle:
    """Takes leaves in order and gives the root."""

    def __init__(self, version: int) -> None:
        self._summed = version >= _SUMMED
        self._stack: list[_Node] = []
        self._count = 0
        self._last = ""

    def add(self, leaf: Leaf) -> None:
        """The next leaf; raises ValueError when it is not behind the one before."""
        if leaf.account <= self._last:
            raise ValueError(f"leaves must be sorted by account: {leaf.account} came late")
        self._last = leaf.account
        self._count += 1
        node = self.leaf(leaf)
        while self._stack and self._stack[-1].size == node.size:
            node = self.node(self._stack.pop(), node)
        self._stack.append(node)

    def root(self) -> Root:
        """The root of all leaves so far."""
        if not self._stack:
            return Root(EMPTY, 0 if self._summed else None, 0)
        node = self._stack[-1]
        for left in reversed(self._stack[:-1]):
            node = self.node(left, node)
        return Root(node.digest.hex(), node.sum if self._summed else None, self._count)

    def leaf(self, leaf: Leaf) -> _Node:
        """The node of a leaf."""
        if not self._summed:
            return _Node(sha256(f"\0{leaf.account}:{leaf.head}".encode()).digest(), 0, 1)
        head = f"\2{leaf.account}:{leaf.head}:".encode()
        return _Node(sha256(head + _bytes(leaf.sum)).digest(), leaf.sum, 1)

    def node(self, left: _Node, right: _Node) -> _Node:
        """The node above two."""
        total = left.sum + right.sum
        both = left.digest + right.digest
        content = b"\3" + both + _bytes(total) if self._summed else b"\1" + both
        return _Node(sha256(content).digest(), total, left.size + right.size)


class Tree:
    """A root of leaves for which nobody vouches: they may be what no ledger ever had."""

    def __init__(self, version: int) -> None:
        self._merkle = Merkle(version)
        self._whole = True

    def add(self, leaf: Leaf) -> None:
        """The next leaf."""
        try:
            self._merkle.add(leaf)
        except (ValueError, OverflowError):
            self._whole = False
        # A colon parts a leaf's account from its head: a head of another length could move it.
        self._whole = self._whole and len(leaf.head) == len(EMPTY)

    def root(self) -> Root | None:
        """The root; None when these cannot be the leaves of a checkpoint."""
        try:
            return self._merkle.root() if self._whole else None
        except OverflowError:
            return None


class GrowingTree:
    """The root of leaves that change and come to be: what is on their way up is hashed again, and
    what is behind a leaf that is new.
    """

    def __init__(self) -> None:
        self._shape = Merkle(_SUMMED)
        self._nodes: dict[str, _Node] = {}
        self._names: list[str] = []
        self._levels: list[list[_Node]] = [[]]
        self._whole = True

    def put(self, leaves: Iterable[Leaf]) -> None:
        """Change these leaves, or add them, in any order."""
        given = {leaf.account: leaf for leaf in leaves}
        try:
            self._nodes |= {name: self._shape.leaf(leaf) for name, leaf in given.items()}
            self._hash(given)
        except OverflowError:
            self._whole = False

    def root(self) -> Root | None:
        """The root of all leaves so far; None: their sums do not fit 64 bits."""
        if not self._whole:
            return None
        if not self._names:
            return Root(EMPTY, 0, 0)
        top = self._levels[-1][0]
        return Root(top.digest.hex(), top.sum, len(self._names))

    def _hash(self, given: Mapping[str, Leaf]) -> None:
        moved = len(self._nodes)
        if moved != len(self._names):
            known = set(self._names)
            first = min(name for name in given if name not in known)
            self._names = sorted(self._nodes)
            moved = bisect_left(self._names, first)
        self._levels[0] = [self._nodes[name] for name in self._names]
        touched = {bisect_left(self._names, name) for name in given}
        self._raise(touched | set(range(moved, len(self._names))))

    def _raise(self, touched: set[int]) -> None:
        """Hash what is above these leaves, level by level."""
        level = 0
        while len(self._levels[level]) > 1:
            below, touched = self._levels[level], {at // 2 for at in touched}
            if len(self._levels) == level + 1:
                self._levels.append([])
            above = self._levels[level + 1]
            for at in sorted(touched):
                pair = below[2 * at : 2 * at + 2]
                node = self._shape.node(*pair) if len(pair) == 2 else pair[0]  # noqa: PLR2004
                above[at : at + 1] = [node]
            level += 1


def root_of(leaves: Iterable[Leaf], version: int = 3) -> Root:
    """The root of leaves that are sorted by account."""
    merkle = Merkle(version)
    for leaf in leaves:
        merkle.add(leaf)
    return merkle.root()


def _bytes(number: int) -> bytes:
    return number.to_bytes(_WIDTH, signed=True)
