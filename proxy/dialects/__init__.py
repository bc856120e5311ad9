"""The client APIs. Each dialect translates its requests to chat requests, and internal events to its wire format."""
