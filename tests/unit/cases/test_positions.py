"""A listing that is asked to go on from nowhere says so: it would begin again, for ever."""

from __future__ import annotations

from pathlib import Path

import pytest

from offpath import App, InvalidArgument


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
@pytest.mark.parametrize("after", ["garbage", "", "a\x00b", "\ud800"])
async def test_a_page_after_nothing_is_refused(kind: str, after: str, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'jobs.db'}" if kind == "sqlite" else "memory://"
    async with App(url, auto_start=False) as app:
        for listing in (app.jobs.find, app.dead.list):
            with pytest.raises(InvalidArgument, match="`next` of the page before"):
                await listing(after=after)
