"""gunicorn's worker, the pump and the log queue. Imports no other package of the proxy."""
