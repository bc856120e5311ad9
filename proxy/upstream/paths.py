"""The paths that model servers know. It stands here, since who asks a server and who counts tokens are below `web`."""

from __future__ import annotations

CHAT_COMPLETIONS = "/v1/chat/completions"
COMPLETIONS = "/v1/completions"
MODELS = "/v1/models"
# vLLM's; llama-server has another one of that name.
TOKENIZE = "/tokenize"
# Of servers that speak Messages themselves (llama-server, newer vLLM), and the proxy's own for its clients.
MESSAGES_COUNT_TOKENS = "/v1/messages/count_tokens"
HEALTH = "/health"
