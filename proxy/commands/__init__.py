"""The command line: serve, check, parse, replay."""
