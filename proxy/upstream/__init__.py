"""Model servers: connections, the wait for an answer, and what servers answer."""
