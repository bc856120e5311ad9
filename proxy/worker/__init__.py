"""A worker's state and records: reload, shared file, metrics, audit, log."""
