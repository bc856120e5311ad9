"""Text and bytes: JSON, the literals of models, server-sent events, secrets."""
