"""Comparison of two trees: the answers of both to all corpora and recordings, byte by byte."""
