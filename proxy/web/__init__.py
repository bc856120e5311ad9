"""What a client asks of the proxy itself: routes, access by keys, errors, the live page."""
