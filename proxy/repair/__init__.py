"""A call's name and arguments as they must have been meant."""
