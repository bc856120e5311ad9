"""What a worker's requests do, kept for the live page: a bounded ring that all workers share, and what is under way."""
