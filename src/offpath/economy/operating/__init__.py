"""The view that an operator has of an economy: documents, views and verbs."""
