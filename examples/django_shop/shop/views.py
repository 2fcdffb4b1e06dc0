"""What the shop answers."""

from django.db import transaction
from django.http import HttpRequest, JsonResponse

from shop.models import Order
from shop.tasks import send_receipt


def place(request: HttpRequest) -> JsonResponse:
    """Place an order. The order and its task are rows of one transaction."""
    with transaction.atomic():
        order = Order.objects.create(item=request.GET["item"])
        result = send_receipt.enqueue(order.pk)
        if order.item == "unicorn":  # there are none: neither order nor task is there
            transaction.set_rollback(True)
            return JsonResponse({"error": "not in stock"}, status=409)
    return JsonResponse({"order": order.pk, "task": result.id}, status=201)
