"""The tools that a request offers, and their JSON Schemas."""
