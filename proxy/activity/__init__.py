"""Running and recent requests for the live page: a bounded ring that all workers share, and each worker's reports."""
