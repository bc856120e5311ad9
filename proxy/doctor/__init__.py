"""Probes of a live model server: what it does to tool calls, and what mends it."""
