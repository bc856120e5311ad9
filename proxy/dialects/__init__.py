"""The APIs that clients speak (Chat, Messages, Responses): a request in, a reply out."""
