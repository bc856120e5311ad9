"""Probes of a live model server: its effects on tool calls, and the fixes."""
