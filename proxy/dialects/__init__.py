"""The APIs that clients speak. Each turns its request into the internal one, and events into its wire."""
