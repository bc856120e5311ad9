"""Upstream chunks in, events out: one path for streamed and whole replies."""
