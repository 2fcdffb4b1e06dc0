"""A Flask service: an order and its receipt commit together, and a count is left for later.

Needs: pip install 'offpath[flask,sqlalchemy]' flask-sqlalchemy
"""

import asyncio
from pathlib import Path

from flask import Flask
from flask_sqlalchemy import SQLAlchemy
from sqlalchemy import text

from offpath.contrib.flask import Offpath

db = SQLAlchemy()
jobs = Offpath()
done: list[str] = []


@jobs.task
def send_receipt(order: int) -> None:
    known = db.session.execute(text("select count(*) from orders where id = :id"), {"id": order})
    done.append(f"receipt for order {order} of {known.scalar_one()}")


@jobs.task
def count() -> None:
    done.append("counted")


def create_app() -> Flask:
    app = Flask(__name__)
    url = f"sqlite:///{Path('shop.db').absolute()}"
    app.config.update(SQLALCHEMY_DATABASE_URI=url, OFFPATH_URL=url)
    db.init_app(app)
    jobs.init_app(app)

    @app.post("/orders/<int:order>")
    def place(order: int) -> tuple[str, int]:
        db.session.execute(text("insert into orders (id) values (:id)"), {"id": order})
        jobs.blocking.enqueue(send_receipt.job(order), within=db.session)
        db.session.commit()
        jobs.later.add(count)
        return "placed", 201

    return app


async def work() -> None:
    async with jobs:
        await jobs.worker().run_until_idle()


app = create_app()
with app.app_context():
    jobs.blocking.migrate()
    db.session.execute(text("create table orders (id integer primary key)"))
    db.session.commit()
client = app.test_client()
print(client.post("/orders/7").status_code)
jobs.blocking.close()
asyncio.run(work())
print(sorted(done))
