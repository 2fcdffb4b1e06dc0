"""Signed webhooks: signing, endpoints, posting, and what receivers need."""
