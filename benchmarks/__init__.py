"""Benchmarks of the proxy next to nginx and the bare upstream: `python -m benchmarks.run`."""
