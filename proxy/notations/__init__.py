"""Calls and reasoning in text: the offered tools, how models write calls, and which of them count where they stand."""
