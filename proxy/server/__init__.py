"""One worker process: gunicorn's worker, the pump of streams, reload, metrics, audit file, log, shared SQLite file."""
