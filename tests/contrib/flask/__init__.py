"""Tests of the Flask integration."""
