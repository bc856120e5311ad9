"""What chat templates accept and lose, with and without healing: `python -m tests.healing`."""
