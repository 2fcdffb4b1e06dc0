"""Tests of the OpenTelemetry integration."""
