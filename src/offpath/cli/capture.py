"""``offpath capture``: the SQL of triggers that append a table's changes to the log."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import click

from offpath.cli.apps import named_settings
from offpath.cli.frame import plain_command
from offpath.cli.values import Shown
from offpath.errors import InvalidArgument
from offpath.model import checks
from offpath.model.route import SLOTS
from offpath.model.schema_url import schema_of

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

# A row image is taken by name, so a column that is dropped later fails nothing and is null.
_FUNCTION: Final = """\
create or replace function {function}() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $capture$
declare
    before constant jsonb := case when tg_op <> 'INSERT' then to_jsonb(old) end;
    after constant jsonb := case when tg_op <> 'DELETE' then to_jsonb(new) end;
    place constant text := coalesce(after, before) ->> {key};
begin
    insert into {schema}.log (id, domain, type, stream, key, slot, at, payload)
    values (
        gen_random_uuid()::text, {domain}, {topic}, {stream}, place,
        (hashtext(coalesce(place, '')) & 2147483647) % {slots}, clock_timestamp(),
        jsonb_build_object(
            'op', lower(tg_op), 'key', place, 'before', {before}, 'after', {after}
        )::text
    );
    return null;
end
$capture$;
revoke all on function {function}() from public;
"""
_TRIGGERS: Final = """\
create trigger {trigger} after insert or delete on {table}
    for each row execute function {function}();
create trigger {trigger}_update after update{of} on {table}
    for each row when ({changed}) execute function {function}();
"""
_REMOVAL: Final = """\
drop trigger if exists {trigger} on {table};
drop trigger if exists {trigger}_update on {table};
drop function if exists {function}();
"""


@click.command()
@click.argument("table")
@click.option("--topic", required=True, metavar="TYPE", help="The type of the events.")
@click.option("--key", required=True, metavar="COLUMN", help="The column that is the event's key.")
@click.option("--columns", metavar="COLUMNS", help="The only columns in the events: a,b,c.")
@click.option("--domain", metavar="NAME", help="The domain of the log.  [default: the table]")
@click.option("--schema", help="The schema of the store.  [default: of the settings, or offpath]")
@click.option("--remove", is_flag=True, help="Print what takes the triggers away again.")
@plain_command
def capture(
    table: str,
    *,
    topic: str,
    key: str,
    columns: str | None,
    domain: str | None,
    schema: str | None,
    remove: bool,
) -> Shown:
    r"""Print triggers of Postgres that append the changes of TABLE to the log.

    Each row that is inserted or deleted, or whose columns change, is an event of the same
    transaction: routers, webhooks and brokers pass it on. Its payload has op, key, before and
    after. Nothing is run: read it, and give it to psql as the owner of the table, who needs the
    right to insert into the log, or as the schema's owner.

    \b
    offpath capture orders --topic order.changed --key id --columns id,status | psql …
    offpath capture orders --topic order.changed --key id --remove | psql …
    """
    named = None if columns is None else [one.strip() for one in columns.split(",")]
    script = script_of(
        table,
        topic=topic,
        key=key,
        columns=named,
        domain=domain,
        schema=schema or schema_of(named_settings(None).url),
        remove=remove,
    )
    return Shown({"sql": script}, script.splitlines())


def script_of(
    table: str,
    *,
    topic: str,
    key: str,
    columns: Sequence[str] | None = None,
    domain: str | None = None,
    schema: str = "offpath",
    remove: bool = False,
) -> str:
    """The statements, as text. Raises ``InvalidArgument`` for what is not a plain name."""
    place = [_checked(one, "the table") for one in table.split(".")]
    if len(place) > 2:  # noqa: PLR2004 - a schema and a name
        raise InvalidArgument(f"a table is written NAME or SCHEMA.NAME, not {table!r:.80}")
    wanted = None if columns is None else [_checked(one, "a column") for one in columns]
    quoted = [f'"{one}"' for one in place]
    values = {
        "table": ".".join(quoted),
        "function": ".".join([*quoted[:-1], f'"offpath_capture_{place[-1]}"']),
        "trigger": "offpath_capture",
        "schema": f'"{_checked(schema, "the schema")}"',
        "key": f"'{_checked(key, 'the key')}'",
        "domain": _literal(checks.name(domain or place[-1], "domain")),
        "topic": _literal(checks.name(topic, "topic")),
        "stream": _literal(place[-1]),
        "slots": SLOTS,
        "before": _image("before", wanted),
        "after": _image("after", wanted),
        "of": "" if wanted is None else " of " + ", ".join(f'"{one}"' for one in wanted),
        "changed": _changed(wanted),
    }
    text = _REMOVAL if remove else f"{_FUNCTION}{_TRIGGERS}"
    return f"begin;\n{text.format_map(values)}commit;\n"


def _image(row: str, columns: Sequence[str] | None) -> str:
    """The part of a row that is in the event."""
    if columns is None:
        return row
    parts = ", ".join(f"'{one}', {row} -> '{one}'" for one in columns)
    return f"case when {row} is not null then jsonb_build_object({parts}) end"


def _changed(columns: Sequence[str] | None) -> str:
    if columns is None:
        return "old.* is distinct from new.*"
    return " or ".join(f'old."{one}" is distinct from new."{one}"' for one in columns)


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _checked(name: str, what: str) -> str:
    """A name of a table or a column that needs no escape, as it is written into the text."""
    if _NAME.fullmatch(name) is None:
        raise InvalidArgument(
            f"{what} {name!r:.80} is not a plain name (letters, digits, _): write the trigger by "
            "hand, as the page on routers shows"
        )
    return name
