"""Paths of model servers."""

from __future__ import annotations

CHAT_COMPLETIONS = "/v1/chat/completions"
COMPLETIONS = "/v1/completions"
MODELS = "/v1/models"
# vLLM's; llama-server's differs.
TOKENIZE = "/tokenize"
# Of servers that have the Messages API (llama-server, newer vLLM), and of the proxy.
MESSAGES_COUNT_TOKENS = "/v1/messages/count_tokens"
HEALTH = "/health"
