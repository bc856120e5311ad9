"""Model servers: connections, waiting for responses, and reading them."""
