"""Harm benchmark: how the proxy handles thousands of generated broken tool calls."""
