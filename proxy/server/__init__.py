"""gunicorn's worker, the pump and the log queue. This package imports no other package of the proxy."""
