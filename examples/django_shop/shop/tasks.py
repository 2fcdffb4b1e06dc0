"""What the shop does off the request path. The worker imports this module by itself."""

from offpath.contrib.django import task  # on Django 6 also: from django.tasks import task
from shop.models import Receipt


@task
def send_receipt(order_id: int) -> str:
    """Send it. A task may run again, so there is one receipt for an order however often it does."""
    receipt, _ = Receipt.objects.get_or_create(order_id=order_id)
    return str(receipt)
