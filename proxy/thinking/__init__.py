"""Thinking models: how a family writes its thoughts, takes them back, and is told to think."""
