"""One request to the model server and its reply: plan, retry, stream, capture."""
