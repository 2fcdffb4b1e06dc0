"""A page that is signed in, and watched for what it must not do."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

from playwright.async_api import Browser, Page

from tests.browser.serving import Served


@contextlib.asynccontextmanager
async def watched(browser: Browser, site: Served) -> AsyncIterator[Page]:
    """A page; what its policy forbids, a script raises or is asked of elsewhere fails the test."""
    context = await browser.new_context()
    context.set_default_timeout(50_000)
    page = await context.new_page()
    wrong: list[str] = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on(
        "console", lambda one: wrong.append(one.text) if "Content Security" in one.text else None
    )
    page.on(
        "request",
        lambda one: None if one.url.startswith((site.url, "data:")) else wrong.append(one.url),
    )
    await site.sign_in(page)
    yield page
    await context.close()
    assert wrong == []
