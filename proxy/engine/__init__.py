"""Upstream chunks in, events out, for streamed and whole replies: which call a delta belongs to, what may leave."""
