"""canitoolcall's fixtures through the proxy: what a client receives from a vLLM without parsers."""
