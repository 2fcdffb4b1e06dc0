"""A project with an Alembic history, as ``alembic init`` makes it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from alembic.config import Config

from tests.contrib.urls import blocking_url

if TYPE_CHECKING:
    from pathlib import Path

_ENV = """
from alembic import context
from sqlalchemy import Column, Integer, MetaData, Table, create_engine

from offpath.contrib import alembic as ours

metadata = MetaData()
Table("orders", metadata, Column("id", Integer, primary_key=True))

engine = create_engine(context.config.get_main_option("sqlalchemy.url"))
with engine.connect() as connection:
    context.configure(connection=connection, target_metadata=metadata, {arguments})
    with context.begin_transaction():
        context.run_migrations()
engine.dispose()
"""

_ASYNC_ENV = """
import asyncio

from alembic import context
from sqlalchemy.ext.asyncio import create_async_engine

def run(connection):
    context.configure(connection=connection, target_metadata=None)
    with context.begin_transaction():
        context.run_migrations()

async def main():
    engine = create_async_engine(context.config.get_main_option("sqlalchemy.url"))
    async with engine.connect() as connection:
        await connection.run_sync(run)
    await engine.dispose()

asyncio.run(main())
"""

_SCRIPT = '''"""${message}"""

import sqlalchemy as sa
from alembic import op

revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}


def upgrade():
    ${upgrades if upgrades else "pass"}


def downgrade():
    ${downgrades if downgrades else "pass"}
'''


def make_project(folder: Path, url: str, arguments: str) -> Config:
    """A project whose ``context.configure`` has these arguments, with one table of its own."""
    return _made(folder, blocking_url(url), _ENV.format(arguments=arguments))


def make_async_project(folder: Path, url: str) -> Config:
    """A project of an async engine; ``url`` names its driver."""
    return _made(folder, url, _ASYNC_ENV)


def add_revision(folder: Path, upgrade: str) -> None:
    """Write the project's first revision, whose upgrade is this statement."""
    (folder / "alembic" / "versions" / "one.py").write_text(
        "from alembic import op\n\nfrom offpath.contrib import alembic as ours\n\n"
        f'revision = "one"\ndown_revision = None\n\n\ndef upgrade():\n    {upgrade}\n'
    )


def newest_revision(folder: Path) -> str:
    """The text of the revision that was made last."""
    versions = (folder / "alembic" / "versions").glob("*.py")
    return max(versions, key=lambda path: path.stat().st_mtime_ns).read_text()


def _made(folder: Path, url: str, env: str) -> Config:
    home = folder / "alembic"
    (home / "versions").mkdir(parents=True)
    (home / "env.py").write_text(env)
    (home / "script.py.mako").write_text(_SCRIPT)
    config = Config()
    config.set_main_option("script_location", str(home))
    config.set_main_option("sqlalchemy.url", url.replace("%", "%%"))
    return config
