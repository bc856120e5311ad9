"""`make soak`: 200 clients, faults at both ends, reloads; nothing that a client could not expect, and no growth."""
