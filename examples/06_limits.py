"""At most one job of a site at once, over the whole fleet; the other sites do not wait for it."""

from __future__ import annotations

import asyncio
from collections import Counter

from offpath import App, Limit

app = App("sqlite:///work.db")
running: Counter[str] = Counter()
most: Counter[str] = Counter()


@app.task(limit=lambda site, _path: Limit(key=f"site:{site}", max_running=1))
async def crawl(site: str, path: str) -> str:
    running[site] += 1
    most[site] = max(most[site], running[site])
    await asyncio.sleep(0.01)
    running[site] -= 1
    return f"https://{site}{path}"


async def main() -> None:
    async with app:
        sites = ("a.example", "b.example")
        await app.enqueue([crawl.job(site, f"/{page}") for page in range(3) for site in sites])
        counts = await app.worker().run_until_idle()
        print("crawled:", counts.succeeded, "at once:", dict(sorted(most.items())))


if __name__ == "__main__":
    asyncio.run(main())
