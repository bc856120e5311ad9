"""Fix functions for one call: its name and its arguments, by schemas and rules."""
