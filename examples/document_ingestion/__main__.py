"""Documents are split, their parts embedded through an API with limits, and indexed when all are.

The API takes two calls at once and answers "too many requests" when it has had enough. Then the
whole fleet leaves it alone for as long as it asks, and no attempt is lost.
"""

from __future__ import annotations

import asyncio

from offpath import App, Context, CoolDown, Limit, Plan, Rate

app = App("sqlite:///work.db")

DOCUMENTS = {"manual": "a b c d e f g h i", "letter": "j k l"}
index: dict[str, dict[int, int]] = {name: {} for name in DOCUMENTS}
BUSY_AT = 3


class Api:
    """Somebody else's service."""

    calls = running = most = refused = 0

    async def embed(self, text: str) -> int:
        """Answer, or say that it has had enough."""
        self.calls += 1
        if self.calls == BUSY_AT:
            self.refused += 1
            raise ConnectionRefusedError("429, Retry-After: 0.3")
        self.running += 1
        self.most = max(self.most, self.running)
        await asyncio.sleep(0.02)
        self.running -= 1
        return len(text)


api = Api()


@app.task
async def ingest(ctx: Context, document: str) -> Plan[None, str]:
    words = DOCUMENTS[document].split()
    parts = [" ".join(words[at : at + 3]) for at in range(0, len(words), 3)]
    jobs = [embed.job(document, number, part) for number, part in enumerate(parts)]
    return ctx.queue(*jobs).next(publish.job(document, len(jobs)))


@app.task(limit=Limit(key="embedding-api", max_running=2, rate=Rate(50, per=1)))
async def embed(document: str, number: int, text: str) -> None:
    try:
        index[document][number] = await api.embed(text)
    except ConnectionRefusedError as error:
        raise CoolDown(0.3, reason=str(error)) from error


@app.task
async def publish(document: str, parts: int) -> str:
    return f"{document}: {len(index[document])} of {parts} parts indexed"


async def main() -> None:
    async with app, app.worker():
        handles = await app.enqueue([ingest.job(name) for name in DOCUMENTS])
        for handle in handles:
            print(await handle.group(timeout=20))
        print("at once:", api.most, "refused:", api.refused)


if __name__ == "__main__":
    asyncio.run(main())
