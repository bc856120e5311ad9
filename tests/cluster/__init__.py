"""Failures in a cluster: HAProxy with deploy/haproxy/haproxy.cfg, three proxies and two model servers."""
