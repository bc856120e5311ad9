"""HAProxy with deploy/haproxy/haproxy.cfg, three proxies and two model servers, and what clients see when some fail."""
