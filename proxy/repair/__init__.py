"""Repair of a call's name and arguments."""
