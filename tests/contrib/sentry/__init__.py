"""Tests of the Sentry integration."""
