"""Requests that chat templates accept or lose text of, with and without healing: `python -m tests.healing`."""
