"""vllm-tool-proxy: makes the tool calls of self-hosted models work in every coding agent."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from proxy.library import CallStream, Reply, ToolCall, find_calls

__version__ = "0.2.0"
# What `GET /` says that it is.
SERVICE = "vllm-tool-proxy"
__all__ = ["CallStream", "Reply", "ToolCall", "find_calls"]


def __getattr__(name: str) -> object:
    """Load the library with the first of its names that is used."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from proxy import library  # noqa: PLC0415

    return getattr(library, name)
