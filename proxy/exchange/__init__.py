"""One request's way to the model server and back: plan, retry, stream, capture."""
