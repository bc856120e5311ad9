"""Small trained models, asked to call tools without a parser, with llama.cpp's parser and through the proxy."""
