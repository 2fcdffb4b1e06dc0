"""Texts are summarised by a language model that is slow, costs money and sometimes fails.

What was paid for is not asked twice: the outline is a durable step, each part a job of its own.
Each tenant has a budget of tokens a minute, and the fleet asks four things at once at most.
"""

from __future__ import annotations

import asyncio
from collections import Counter

from offpath import App, Context, Limit, Plan, Rate, RetryOptions

app = App("sqlite:///work.db")

BUDGET = 20
"""Tokens that a tenant may spend in a minute."""
PART = 5
GRANTED = 7
"""Tokens of one part, and the parts that both budgets have room for: three, and four."""
FAILS_AT = 2
"""The call of each tenant that the model answers with an error."""
TEXTS = {
    "acme": "one two three four five six seven eight nine ten eleven twelve",
    "globex": " ".join(f"word{n}" for n in range(30)),
}


class Model:
    """Somebody else's service, which fails the first time that it is asked for a part."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()

    async def ask(self, tenant: str, prompt: str) -> str:
        """The answer, or an error that is worth another attempt."""
        self.asked[tenant] += 1
        number = self.asked[tenant]
        await asyncio.sleep(0.01)
        if number == FAILS_AT:
            raise ConnectionError("503, try again")
        return f"<{len(prompt.split())} words>"


model = Model()
crashes = iter([True])


def affordable(tenant: str, prompt: str) -> list[Limit]:
    """Four at once over the fleet, and the tokens of this tenant."""
    tokens = Rate(BUDGET, per=60)
    return [
        Limit("model", max_running=4),
        Limit(f"tokens:{tenant}", rate=tokens, cost=len(prompt.split())),
    ]


@app.task(retry=RetryOptions(attempts=3, base=0.05, jitter=0))
async def summarise(ctx: Context, tenant: str, text: str) -> Plan[None, str]:
    outline = await ctx.step("outline", model.ask, tenant, text)
    if tenant == "acme" and next(crashes, False):
        raise RuntimeError("the worker stumbles after it has paid for the outline")
    words = text.split()
    parts = [" ".join(words[at : at + PART]) for at in range(0, len(words), PART)]
    return ctx.queue(*(ask.job(tenant, part) for part in parts)).next(join.job(outline))


@app.task(limit=affordable, retry=RetryOptions(attempts=4, base=0.05, jitter=0))
async def ask(tenant: str, prompt: str) -> str:
    return await model.ask(tenant, prompt)


@app.task
async def join(ctx: Context, outline: str) -> str:
    return f"outline {outline}, parts {' '.join(await ctx.results(ask))}"


async def main() -> None:
    async with app, app.worker():
        acme = await summarise.enqueue("acme", TEXTS["acme"])
        print("acme:", await acme.group(timeout=20))
        print("acme asked:", model.asked["acme"])  # outline, 3 parts, one of them twice
        globex = await summarise.enqueue("globex", TEXTS["globex"])
        async with asyncio.timeout(20):
            while await app.jobs.count(task=ask, state="succeeded") < GRANTED:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        waiting = await app.jobs.count(task=ask, state="blocked")
        print(f"globex: {waiting} of 6 parts wait for the next minute")
        await app.groups.cancel(globex.id)


if __name__ == "__main__":
    asyncio.run(main())
