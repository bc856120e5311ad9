"""The text formats in which models write tool calls, one module a family, and the scanner that finds them."""
