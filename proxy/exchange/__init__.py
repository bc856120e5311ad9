"""One request's way to the model server and back: plan, tries, reply stream, capture."""
