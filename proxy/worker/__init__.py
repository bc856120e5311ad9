"""A worker's state and what it tells: reload, shared memory, metrics, audit, log."""
