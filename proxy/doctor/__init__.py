"""Probes of a live model server: what it does to tool calls, and the rule that fixes it."""
