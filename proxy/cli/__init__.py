"""The command line: serve, check, parse, doctor, setup, launch, key; the agents' configuration files."""
