"""Code without an event loop: the same verbs, blocking."""

from __future__ import annotations

from offpath import App

app = App("sqlite:///work.db", auto_start=True)


@app.task
def shout(text: str) -> str:
    return text.upper()


def main() -> None:
    with app.blocking as client:
        handle = client.enqueue(shout.job("hello"))
        print("result:", handle.result(timeout=10))
        print("succeeded:", client.jobs.count(state="succeeded"))


if __name__ == "__main__":
    main()
