"""The side of a running handler: its context, its plans and its durable steps."""
