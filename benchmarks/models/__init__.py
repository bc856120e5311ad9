"""Tool calls of small trained models: without a parser, with llama.cpp's parser, and through the proxy."""
