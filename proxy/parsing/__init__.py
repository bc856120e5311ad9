"""Reading a text that is still being written: buffer, cursor, Markdown."""
