"""gunicorn's side: a client's connection, its request, standard error. Imports nothing of the other packages."""
