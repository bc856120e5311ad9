"""Model servers: connections, the pump, and what servers answer."""
