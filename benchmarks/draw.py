"""Plots of `benchmarks.growth` results, read as JSON from standard input. Needs only matplotlib."""

from __future__ import annotations

import json
import sys

import matplotlib as mpl

mpl.use("Agg")
from matplotlib import pyplot as plt


def main() -> None:
    """Draw each plot with logarithmic axes and a linear line for comparison."""
    for plot in json.load(sys.stdin):
        sizes = [size for size, _ in plot["points"]]
        costs = [max(cost, 1e-3) for _, cost in plot["points"]]
        figure, axes = plt.subplots(figsize=(6, 4))
        axes.loglog(sizes, costs, marker="o", label="measured")
        axes.loglog(sizes, [costs[-1] * size / sizes[-1] for size in sizes], linestyle=":", label="linear")
        axes.set_xlabel(plot["x"])
        axes.set_ylabel(plot["y"])
        axes.legend()
        figure.tight_layout()
        figure.savefig(plot["file"], dpi=120)
        plt.close(figure)


if __name__ == "__main__":
    main()
