"""The activity of a worker's requests for the live page: a bounded ring that all workers share, and what is under way."""
