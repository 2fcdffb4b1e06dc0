"""Tests of the integrations for logs."""
