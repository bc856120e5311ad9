"""What becomes of broken tool calls: right, refused or wrong, over thousands of generated ones."""
