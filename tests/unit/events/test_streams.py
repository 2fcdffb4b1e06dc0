"""A stream has a dispatcher or goes to endpoints: with both, each event would go to only one."""

from __future__ import annotations

import pytest

import offpath
from offpath.errors import InvalidArgument


@pytest.fixture
def app() -> offpath.App:
    return offpath.App("memory://", auto_start=False)


@pytest.mark.parametrize("stream", ["mail", "offpath.jobs"])
def test_what_has_a_dispatcher_does_not_go_to_webhooks_too(app: offpath.App, stream: str) -> None:
    app.outbox(stream, dispatcher=print)
    with pytest.raises(InvalidArgument, match=f"'{stream}' has a dispatcher already"):
        app.webhooks.deliver("default", "mail")
    assert app.webhooks.streams == ()


@pytest.mark.parametrize("stream", ["mail", "offpath.jobs"])
def test_what_goes_to_webhooks_has_no_dispatcher_too(app: offpath.App, stream: str) -> None:
    app.webhooks.deliver("mail")
    with pytest.raises(InvalidArgument, match=f"'{stream}' goes to webhooks already"):
        app.outbox(stream, dispatcher=print)
    app.outbox("other", dispatcher=print)
    assert app.webhooks.streams == ("offpath.jobs", "mail")
