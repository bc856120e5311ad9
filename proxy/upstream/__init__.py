"""Model servers: connections, timeouts, responses, and the list of models with aliases."""
