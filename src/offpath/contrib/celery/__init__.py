"""Celery's code on offpath: the scanner that reads it, and the words that it is written in."""
