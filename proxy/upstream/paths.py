"""Paths of model servers."""

from __future__ import annotations

CHAT_COMPLETIONS = "/v1/chat/completions"
COMPLETIONS = "/v1/completions"
MODELS = "/v1/models"
# vLLM's; llama-server's differs.
TOKENIZE = "/tokenize"
# Path of the proxy, and of servers with the Messages API (llama-server, newer vLLM).
MESSAGES_COUNT_TOKENS = "/v1/messages/count_tokens"
HEALTH = "/health"
