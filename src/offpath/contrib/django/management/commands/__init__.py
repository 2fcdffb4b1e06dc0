"""Commands of ``manage.py``: the worker, and our whole command line."""
