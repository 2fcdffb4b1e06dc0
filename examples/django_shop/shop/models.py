"""What the shop keeps."""

from django.db import models


class Order(models.Model):
    """An order."""

    item = models.CharField(max_length=100)

    def __str__(self) -> str:
        """The item."""
        return self.item


class Receipt(models.Model):
    """The receipt of an order."""

    order = models.OneToOneField(Order, on_delete=models.CASCADE)

    def __str__(self) -> str:
        """The item that it is for."""
        return f"receipt of {self.order}"
