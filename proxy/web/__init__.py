"""Flask: routes, access, views, errors, access log."""
