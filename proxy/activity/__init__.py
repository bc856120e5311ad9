"""The activity of a worker's requests for the live page: a bounded ring all workers share, and what is under way."""
