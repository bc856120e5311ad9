"""Measurements of the proxy beside nginx and the bare upstream; `python -m benchmarks.run`."""
