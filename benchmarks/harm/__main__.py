"""Harm benchmark: `python -m benchmarks.harm [--cases N] [--family F] [--break B] [--show N]`."""

from __future__ import annotations

import sys

from benchmarks.harm.run import main

sys.exit(main())
