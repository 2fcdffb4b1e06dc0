"""A Django project: a view places an order, a worker sends the receipt, the result is read.

Needs: pip install 'offpath[django]'. By hand, in this folder: ``python manage.py migrate
--run-syncdb``, ``python manage.py runserver`` and ``python manage.py offpath_worker``.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER))
os.environ["DJANGO_SETTINGS_MODULE"] = "settings"


def manage(*arguments: str) -> None:
    """Run a command of the project, in a process of its own."""
    command = [sys.executable, str(FOLDER / "manage.py"), *arguments]
    subprocess.run(command, check=True, capture_output=True)  # noqa: S603 - our own


def main() -> None:
    """Place two orders and run the worker until nothing is due."""
    manage("migrate", "--run-syncdb")
    import django

    django.setup()
    from django.test import Client
    from shop.models import Order, Receipt
    from shop.tasks import send_receipt

    client = Client()
    placed = client.post("/orders?item=lamp")
    print(placed.status_code, client.post("/orders?item=unicorn").status_code)
    manage("offpath_worker", "--until-idle")
    result = send_receipt.get_result(placed.json()["task"])
    print(result.status.value, result.return_value)
    print("orders:", Order.objects.count(), "receipts:", Receipt.objects.count())


if __name__ == "__main__":
    main()
