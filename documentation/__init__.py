"""The documentation: tables and pages generated from the code, and the links of the site. `make docs` builds it."""
