"""The documentation site: the pages that are made of the code's own tables, and the links. `make docs` builds it."""
