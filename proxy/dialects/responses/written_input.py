"""The reply of a model that writes the input of a custom tool as its text: the client gets the call.

vLLM keeps such a reply to the tool's grammar (`structured_outputs`), which it cannot do in the string of a call.
"""

from __future__ import annotations

from proxy.codec.json_text import JsonObject, dump_inner
from proxy.dialects.block_start import TextKind
from proxy.dialects.responses.output import Output, ReplyOptions
from proxy.dialects.responses.tools import INPUT
from proxy.engine.choice_delta import was_cut
from proxy.engine.events import CallArguments, CallOpened


class WrittenInputOutput(Output):
    """The stream of such a reply: its text is written into the arguments of one call of the tool with this `name`."""

    def __init__(self, options: ReplyOptions, name: str) -> None:
        super().__init__(options)
        self._name = name
        self._has_begun = False

    def _say(self, kind: TextKind, text: str) -> list[JsonObject]:
        if kind == "thinking":
            return super()._say(kind, text)
        events: list[JsonObject] = []
        if not self._has_begun:
            text = self._start_of_text.take(kind, text)
            if not text:
                return []
            self._has_begun = True
            events += self._of_call(CallOpened(0, 0, "", self._name))
            events += self._of_call(CallArguments(0, 0, f'{{"{INPUT}":"'))
        escaped = dump_inner(text)[1:-1]
        return [*events, *self._of_call(CallArguments(0, 0, escaped))]

    def end(self) -> list[JsonObject]:
        """The end of a reply that was finished; a text that was not cut off is the whole input."""
        events: list[JsonObject] = []
        cut = self._finished is not None and was_cut(self._finished.reason)
        if self._has_begun and not cut:
            events += self._of_call(CallArguments(0, 0, '"}'))
        return [*events, *super().end()]
