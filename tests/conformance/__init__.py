"""canitoolcall's fixtures through the proxy, as a client receives them from a vLLM without parsers."""
