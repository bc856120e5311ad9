"""Requests as a model's chat template accepts them, and the table of model families (reasoning, switches, parsers)."""
