"""The command line: serve, check, parse, replay, setup, launch."""
