"""The rooms of the fault matrix: the dialects as clients read them, and the bench that each row is run on."""
