"""vllm-tool-proxy: makes the tool calls of self-hosted models work in every coding agent."""

__version__ = "0.2.0"
