"""Secrets lie sealed in the database, keys are rotated, and a missing key never posts unsigned."""

from __future__ import annotations

import pytest

from offpath import App
from offpath.config import load_settings
from offpath.errors import ConfigurationError, InvalidArgument
from offpath.events import Verifier
from offpath.events.webhook.endpoints import Sealing
from offpath.events.webhook.guard import Guard
from offpath.events.webhook.keyring import Keyring, SecretKeyMissing, is_sealed, new_key
from offpath.events.webhook.poster import HttpPoster, Post
from offpath.model.webhook import Refused
from offpath.runtime.clock import SystemClock
from offpath.store.memory import MemoryStore

URL = "https://shop.example/hooks"
OLD, NEW = new_key(), new_key()


def app_on(store: MemoryStore, key: str | None) -> App:
    return App(store=store, settings=load_settings(environ={}, secret_key=key))


async def stored(store: MemoryStore) -> tuple[str, ...]:
    (endpoint,) = await store.endpoints()
    return endpoint.secrets


async def test_with_a_key_the_database_has_no_secret() -> None:
    store = MemoryStore()
    async with app_on(store, OLD) as app:
        added = await app.webhooks.add("shop", URL)
        rotated = await app.webhooks.rotate("shop")
        assert all(map(is_sealed, await stored(store)))
        assert Keyring(OLD).opened(await stored(store)) == (rotated.secret, added.secret)
        again = await app.webhooks.add("shop", f"{URL}/2")
        assert again.secret == rotated.secret
        assert await app.webhooks.sealing() == Sealing()


async def test_without_a_key_it_is_stored_as_it_is_and_that_is_told() -> None:
    store = MemoryStore()
    async with app_on(store, None) as app:
        added = await app.webhooks.add("shop", URL)
        assert await stored(store) == (added.secret,)
        assert await app.webhooks.sealing() == Sealing(plain=("shop",))
        with pytest.raises(InvalidArgument, match="OFFPATH_SECRET_KEY is not set"):
            await app.webhooks.reseal()


async def test_a_key_is_brought_in_and_rotated_without_a_new_secret() -> None:
    store = MemoryStore()
    async with app_on(store, None) as app:
        secret = (await app.webhooks.add("shop", URL)).secret
    for keys in (OLD, f"{NEW},{OLD}"):
        async with app_on(store, keys) as app:
            assert await app.webhooks.reseal() == 1
    assert Keyring(NEW).opened(await stored(store)) == (secret,)


@pytest.mark.parametrize("key", [None, NEW], ids=["none", "another"])
async def test_a_secret_whose_key_is_missing_is_told_and_posts_nothing(key: str | None) -> None:
    store = MemoryStore()
    async with app_on(store, OLD) as app:
        await app.webhooks.add("shop", URL)
    async with app_on(store, key) as app:
        assert (await app.webhooks.sealing()).shut == ("shop",)
        with pytest.raises(SecretKeyMissing, match="OFFPATH_SECRET_KEY"):
            await app.webhooks.rotate("shop")
    (endpoint,) = await store.endpoints()
    poster = HttpPoster(Guard(), SystemClock(), keyring=Keyring(key))
    answer = await poster.post(Post(endpoint, "id", b"{}"))
    await poster.close()
    assert isinstance(answer, Refused)
    assert "OFFPATH_SECRET_KEY" in answer.why


async def test_what_is_posted_is_signed_with_the_secret_itself() -> None:
    store = MemoryStore()
    async with app_on(store, OLD) as app:
        secret = (await app.webhooks.add("shop", URL)).secret
    (endpoint,) = await store.endpoints()
    poster = HttpPoster(Guard(), SystemClock(), keyring=Keyring(OLD))
    headers = poster._headers(Post(endpoint, "id", b"{}"))
    assert Verifier(secret).verify(b"{}", headers) == "id"


def test_no_key_is_told_and_none_is_shown() -> None:
    with pytest.raises(ConfigurationError, match="new-key") as refusal:
        Keyring("hunter2")
    assert "hunter2" not in str(refusal.value)
    assert OLD not in repr(Keyring(OLD))
    settings = load_settings(environ={"OFFPATH_SECRET_KEY": OLD})
    assert settings.secret_key == OLD
    assert OLD not in repr(settings)
