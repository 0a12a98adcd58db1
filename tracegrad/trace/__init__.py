"""Tracing: running the user's function once and recording what it does."""
