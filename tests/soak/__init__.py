"""`make soak`: 200 clients, faulty clients and servers, reloads. All outcomes must be expected, and no worker grows."""
