"""`python -m proxy` is `vllm-tool-proxy`."""

from __future__ import annotations

import sys

from proxy.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
