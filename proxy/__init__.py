"""vllm-tool-proxy: makes the tool calls of self-hosted models work in every coding agent."""

__version__ = "0.2.0"
# What `GET /` says that it is.
SERVICE = "vllm-tool-proxy"
