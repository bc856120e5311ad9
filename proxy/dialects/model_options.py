"""The options of a model for the dialects that are translated."""

from __future__ import annotations

from dataclasses import dataclass

# The switch of a model whose family has words of its own for how much it is to think: what the client says goes on as
# it is, and becomes one of them (`healing/switches.py`).
OWN_WORDS = "own_words"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelOptions:
    """The facts of a model, from the rules and the server.

    `model`: the name under which the upstream knows it. `server_kind`: vllm, sglang, lmdeploy, llamacpp or litellm, ""
    if unknown. `thinking`: the switch of the model's thinking: "" or "none", a name in `chat_template_kwargs`
    (enable_thinking, thinking), reasoning_effort, or OWN_WORDS. `reasoning_history`: the field of assistant messages in
    which earlier thinking goes back (reasoning, reasoning_content, thinking); "" is that which a thought brings itself,
    and with `drop` none goes back. `server_tools`: what becomes of tools that only the servers of the dialect's maker
    have (refuse, drop); "" is as the dialect has it.
    """

    model: str
    server_kind: str = ""
    thinking: str = ""
    reasoning_history: str = "drop"
    server_tools: str = ""
