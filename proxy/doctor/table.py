"""All probes, in the order in which they are made. A new one is one entry of one of these tables."""

from __future__ import annotations

from proxy.doctor import calls, fields, server, shapes, streams, thoughts

PROBES = (*server.PROBES, *calls.PROBES, *streams.PROBES, *thoughts.PROBES, *fields.PROBES, *shapes.PROBES)
