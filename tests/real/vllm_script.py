"""Scripted replies of a real vLLM server, with the flag `--logits-processors tests.real.vllm_script:Scripted`.

Everything but the choice of the next token is vLLM's own: HTTP, template, tokenizer, engine, parsers, streaming. The
last `[[script:NAME]]` of a prompt selects the texts of that name in the JSON file that the variable `VARIABLE` names.
The number of tool results after it selects the text; the last one is repeated. The file is read for each prompt, so it
may change while the server runs. Other prompts are answered by the model's weights.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from vllm.v1.sample.logits_processor import LogitsProcessor

VARIABLE = "VLLM_SCRIPTS"
MARKER = re.compile(r"\[\[script:([\w.-]+)\]\]")
# The start of a tool's result in chat templates.
RESULT = re.compile(r"<tool_response>|\[TOOL_RESULTS\]")


class Scripted(LogitsProcessor):  # type: ignore[misc]
    """Logits processor that allows only the script's next token, for each row of the batch that has a script."""

    def __init__(self, vllm_config: Any, device: Any, is_pin_memory: bool) -> None:
        from transformers import AutoTokenizer  # noqa: PLC0415 - takes seconds, and only the engine's process needs it

        self._tokenizer = AutoTokenizer.from_pretrained(vllm_config.model_config.tokenizer)
        # By row of the batch: the script's tokens, and the tokens so far, which vLLM appends to.
        self._rows: dict[int, tuple[list[int], Sequence[int]]] = {}

    def is_argmax_invariant(self) -> bool:
        """Return False: the processor changes which token is the likeliest."""
        return False

    def update_state(self, batch_update: Any) -> None:
        """Follow the batch: rows that were removed, added and moved."""
        if batch_update is None:
            return
        for index in batch_update.removed:
            self._rows.pop(index, None)
        for index, _, prompt, said in batch_update.added:
            self._put(index, self._script(prompt or ()), said)
        for one, other, direction in batch_update.moved:
            moved, swapped = self._rows.pop(one, None), self._rows.pop(other, None)
            if moved is not None:
                self._rows[other] = moved
            if swapped is not None and direction.name == "SWAP":
                self._rows[one] = swapped

    def apply(self, logits: Any) -> Any:
        """Forbid all tokens but the script's next one."""
        for index, (tokens, said) in self._rows.items():
            following = tokens[min(len(said), len(tokens) - 1)]
            logits[index].fill_(float("-inf"))
            logits[index, following] = 0.0
        return logits

    def _put(self, index: int, tokens: list[int], said: Sequence[int]) -> None:
        if tokens:
            self._rows[index] = (tokens, said)
        else:
            self._rows.pop(index, None)

    def _script(self, prompt: Sequence[int]) -> list[int]:
        """Return the tokens of the prompt's script and of the end of the turn, or [] for a prompt without a script."""
        text = self._tokenizer.decode(prompt)
        found = [*MARKER.finditer(text)]
        if not found:
            return []
        texts = json.loads(Path(os.environ[VARIABLE]).read_text(encoding="utf-8")).get(found[-1][1])
        if not texts:
            return []
        turn = len(RESULT.findall(text, found[-1].end()))
        says = texts[min(turn, len(texts) - 1)]
        return [*self._tokenizer.encode(says, add_special_tokens=False), self._tokenizer.eos_token_id]
