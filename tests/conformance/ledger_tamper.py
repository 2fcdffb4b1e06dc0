"""Writing into a ledger as the owner of its database could, who removes what refuses it."""

from __future__ import annotations

import re
from typing import Any

from msgspec.structs import replace

from offpath.model.ledger.posting import GENESIS, LinkRecord, hash_of
from offpath.model.ledger.records import AccountRecord, SideKey
from offpath.store.memory.ledger_rows import Ledger
from offpath.store.protocol import Store
from tests.conformance.backends import Backend

_TABLE = {"sqlite": "offpath_ledger_", "postgres": "offpath.ledger_"}


def tamper(store: Store, backend: Backend) -> Tamper:
    """A hand in the rows of this store."""
    return MemoryTamper(store) if backend.name == "memory" else SqlTamper(store, backend)


class Tamper:
    """Acts of an attacker; ``account`` changes are those of the record's fields."""

    def __init__(self, store: Store) -> None:
        self.store = store

    async def links(self, account: str) -> list[tuple[LinkRecord, str]]:
        """An account's links with their postings' metadata."""
        return await self.store.ledger_since(account, 0)

    async def account(self, account: str) -> AccountRecord:
        """An account's row."""
        (found,) = await self.store.ledger_accounts(ids=[account])
        return found

    async def cut(self, account: str, count: int) -> None:
        """Delete the last links and put the row back to the one before."""
        links = [link for link, _ in await self.links(account)]
        self.remove_links(account, above=len(links) - count)
        await self.put_back(account, links[: len(links) - count])

    async def put_back(self, account: str, links: list[LinkRecord]) -> None:
        """Set the row to the last of these links."""
        last = links[-1] if links else None
        self.change_account(
            account,
            balance=0 if last is None else last.balance,
            raised=0 if last is None else last.raised,
            head=GENESIS if last is None else last.hash,
            number=0 if last is None else last.number,
        )

    async def swap(self, one: str, other: str) -> None:
        """Exchange two accounts' links and rows."""
        for each, name in ((one, "x:promo"), (other, one), ("x:promo", other)):
            self.rename(each, name)

    async def rewrite(self, account: str, number: int, amount: int) -> None:
        """Another amount in one link, and all hashes and balances behind it made to fit."""
        sign = (await self.account(account)).sum // ((await self.account(account)).balance or 1)
        head, total, raised = GENESIS, 0, 0
        made = []
        for link, meta in await self.links(account):
            own = amount if link.number == number else link.amount
            total += own
            raised += max(own * sign, 0)
            fresh = replace(
                link, amount=own, entries=(own,), prev=head, balance=total * sign, raised=raised
            )
            fresh = replace(fresh, hash=hash_of(fresh, meta))
            head = fresh.hash
            made.append(fresh)
        self.change_links(account, made)
        await self.put_back(account, made)

    def change_account(self, account: str, **changes: Any) -> None:
        """Write into an account's row."""
        raise NotImplementedError

    def change_links(self, account: str, links: list[LinkRecord]) -> None:
        """Write links of the same numbers."""
        raise NotImplementedError

    def change_meta(self, posting: str, meta: str) -> None:
        """Write other metadata."""
        raise NotImplementedError

    def change_leaf(self, account: str, **changes: Any) -> None:
        """Write into a leaf."""
        raise NotImplementedError

    def change_checkpoint(self, checkpoint: str, **changes: Any) -> None:
        """Write into a checkpoint."""
        raise NotImplementedError

    def remove_leaves(self) -> None:
        """Delete all leaves."""
        raise NotImplementedError

    def remove_links(self, account: str, *, above: int = 0) -> None:
        """Delete links of numbers above one."""
        raise NotImplementedError

    def remove_first(self, account: str) -> None:
        """Delete the first link."""
        raise NotImplementedError

    def remove_account(self, account: str) -> None:
        """Delete a row."""
        raise NotImplementedError

    def remove_checkpoints(self, *keep: str) -> None:
        """Delete all checkpoints but these."""
        raise NotImplementedError

    def reverse_checkpoints(self) -> None:
        """Exchange the last checkpoint and the first."""
        raise NotImplementedError

    def add_account(self, account: str, balance: int, number: int) -> None:
        """Write a row that no posting made."""
        raise NotImplementedError

    def change_side(self, kind: str, row_id: str, **changes: Any) -> None:
        """Write into a row beside the postings."""
        raise NotImplementedError

    def remove_side(self, kind: str, row_id: str) -> None:
        """Delete a row beside the postings."""
        raise NotImplementedError

    def rename(self, account: str, name: str) -> None:
        """Give an account, its links and its leaf's place another name; not its leaf."""
        raise NotImplementedError


class MemoryTamper(Tamper):
    """By the internals."""

    @property
    def _ledger(self) -> Ledger:
        tables: Any = self.store
        return tables._tables.ledger  # type: ignore[no-any-return]

    def change_account(self, account: str, **changes: Any) -> None:
        """Do so in memory."""
        self._ledger.accounts[account] = replace(self._ledger.accounts[account], **changes)

    def change_links(self, account: str, links: list[LinkRecord]) -> None:
        """Do so in memory."""
        for link in links:
            self._ledger.links[account][link.number - 1] = link
            posting = self._ledger.postings[link.posting]
            own = tuple(link if one.account == account else one for one in posting.links)
            posting = replace(posting, links=own)
            self._ledger.postings[posting.id] = self._ledger.order[posting.seq - 1] = posting

    def change_meta(self, posting: str, meta: str) -> None:
        """Do so in memory."""
        self._ledger.postings[posting] = replace(self._ledger.postings[posting], meta=meta)

    def change_leaf(self, account: str, **changes: Any) -> None:
        """Do so in memory."""
        self._ledger.leaves[account] = replace(self._ledger.leaves[account], **changes)

    def change_checkpoint(self, checkpoint: str, **changes: Any) -> None:
        """Do so in memory."""
        known = self._ledger.checkpoints
        known[:] = [replace(one, **changes) if one.id == checkpoint else one for one in known]

    def remove_leaves(self) -> None:
        """Do so in memory."""
        self._ledger.leaves.clear()

    def remove_links(self, account: str, *, above: int = 0) -> None:
        """Do so in memory."""
        del self._ledger.links[account][above:]

    def remove_first(self, account: str) -> None:
        """Do so in memory."""
        del self._ledger.links[account][0]

    def remove_account(self, account: str) -> None:
        """Do so in memory."""
        del self._ledger.accounts[account]
        self._ledger.ids.remove(account)

    def remove_checkpoints(self, *keep: str) -> None:
        """Do so in memory."""
        known = self._ledger.checkpoints
        known[:] = [one for one in known if one.id in keep]

    def reverse_checkpoints(self) -> None:
        """Do so in memory."""
        self._ledger.checkpoints.reverse()

    def add_account(self, account: str, balance: int, number: int) -> None:
        """Do so in memory."""
        made = AccountRecord(id=account, balance=balance, number=number)
        self._ledger.accounts[account] = made
        self._ledger.ids[:] = sorted({*self._ledger.ids, account})

    def change_side(self, kind: str, row_id: str, **changes: Any) -> None:
        """Do so in memory."""
        row = self._ledger.sides[kind][row_id]
        self._ledger.put_side(replace(row, version=row.version + 1, **changes))

    def remove_side(self, kind: str, row_id: str) -> None:
        """Do so in memory."""
        self._ledger.about_to_change()
        self._ledger._drop_side(SideKey(kind, row_id))
        del self._ledger.sides[kind][row_id]

    def rename(self, account: str, name: str) -> None:
        """Do so in memory."""
        ledger = self._ledger
        ledger.accounts[name] = replace(ledger.accounts.pop(account), id=name)
        ledger.links[name] = [replace(one, account=name) for one in ledger.links.pop(account)]
        ledger.ids[:] = sorted(ledger.accounts)


class SqlTamper(Tamper):
    """By statements, without the triggers."""

    def __init__(self, store: Store, backend: Backend) -> None:
        super().__init__(store)
        self._backend = backend

    def run(self, *statements: str) -> None:
        """Run statements; ``<name>`` is a table of the ledger."""
        place = _TABLE[self._backend.name]
        written = [re.sub(r"<(\w+)>", rf"{place}\1", one) for one in statements]
        if self._backend.name == "postgres":
            self._backend.execute_all(["set session_replication_role = replica", *written])
            return
        found = self._backend.execute(
            "select name, sql from sqlite_schema where type = 'trigger' and name like '%ledger%'"
        )
        drops = [f"drop trigger {name}" for name, _ in found]
        self._backend.execute_all([*drops, *written, *(script for _, script in found)])

    def change_account(self, account: str, **changes: Any) -> None:
        """Do so in memory."""
        self.run(f"update <account> set {_set(changes)} where id = '{account}'")

    def change_links(self, account: str, links: list[LinkRecord]) -> None:
        """Do so in memory."""
        for one in links:
            changes = {
                name: getattr(one, name) for name in ("amount", "balance", "raised", "prev", "hash")
            }
            entries = f"'[{','.join(map(str, one.entries))}]'"
            if self._backend.name == "postgres":
                entries = f"array[{','.join(map(str, one.entries))}]"
            self.run(
                f"update <link> set {_set(changes)}, entries = {entries} "
                f"where account = '{account}' and number = {one.number}"
            )

    def change_meta(self, posting: str, meta: str) -> None:
        """Do so in memory."""
        self.run(f"update <posting> set {_set({'meta': meta})} where id = '{posting}'")

    def change_leaf(self, account: str, **changes: Any) -> None:
        """Do so in memory."""
        self.run(f"update <leaf> set {_set(changes)} where account = '{account}'")

    def change_checkpoint(self, checkpoint: str, **changes: Any) -> None:
        """Do so in memory."""
        self.run(f"update <checkpoint> set {_set(changes)} where id = '{checkpoint}'")

    def remove_leaves(self) -> None:
        """Do so in memory."""
        self.run("delete from <leaf>")

    def remove_links(self, account: str, *, above: int = 0) -> None:
        """Do so in memory."""
        self.run(f"delete from <link> where account = '{account}' and number > {above}")

    def remove_first(self, account: str) -> None:
        """Do so in memory."""
        self.run(f"delete from <link> where account = '{account}' and number = 1")

    def remove_account(self, account: str) -> None:
        """Do so in memory."""
        self.run(f"delete from <account> where id = '{account}'")

    def remove_checkpoints(self, *keep: str) -> None:
        """Do so in memory."""
        kept = ",".join(f"'{one}'" for one in ("", *keep))
        self.run(f"delete from <checkpoint> where id not in ({kept})")

    def reverse_checkpoints(self) -> None:
        """Do so in memory."""
        column = "seq" if self._backend.name == "sqlite" else "n"
        self.run(f"update <checkpoint> set {column} = -{column}")

    def add_account(self, account: str, balance: int, number: int) -> None:
        """Do so in memory."""
        names, values = "id, balance, number", f"'{account}', {balance}, {number}"
        if self._backend.name == "sqlite":
            names += ", kind, currency, side, guarded"
            values += f", '{account.rpartition(':')[2]}', 'CREDIT', -1, 1"
        self.run(f"insert into <account> ({names}) values ({values})")

    def change_side(self, kind: str, row_id: str, **changes: Any) -> None:
        """Do so in memory."""
        self.run(
            f"update <side> set version = version + 1, {_set(changes)} "
            f"where kind = '{kind}' and id = '{row_id}'"
        )

    def remove_side(self, kind: str, row_id: str) -> None:
        """Do so in memory."""
        self.run(f"delete from <side> where kind = '{kind}' and id = '{row_id}'")

    def unguard(self, account: str) -> None:
        """Have a row say that its balance may be below zero."""
        if self._backend.name == "sqlite":
            self.run(f"update <account> set guarded = 0 where id = '{account}'")
            return
        kept = "select pg_get_functiondef('offpath.ledger_guarded'::regproc)"
        ((function,),) = self._backend.execute(kept)
        self.run(
            "create or replace function offpath.ledger_guarded(account text) returns boolean "
            "language sql immutable parallel safe as $$ select false $$",
            f"update <account> set number = number where id = '{account}'",
            function,
        )

    def rename(self, account: str, name: str) -> None:
        """Do so in memory."""
        kind = f", kind = '{name.rpartition(':')[2]}'" if self._backend.name == "sqlite" else ""
        self.run(
            f"update <account> set id = '{name}'{kind} where id = '{account}'",
            f"update <link> set account = '{name}' where account = '{account}'",
        )


def _set(changes: dict[str, Any]) -> str:
    return ", ".join(f"{name} = {_text(value)}" for name, value in changes.items())


def _text(value: object) -> str:
    if value is None:
        return "null"
    return str(value) if isinstance(value, int) else "'" + str(value).replace("'", "''") + "'"
