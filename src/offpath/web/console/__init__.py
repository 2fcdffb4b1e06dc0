"""The operator's console: an ASGI app of pages, and of JSON with the same documents.

``doors`` lets in and keeps out, ``places`` are the databases, ``readings`` the table of what may be
read, ``rendering`` makes pages of documents.
"""
