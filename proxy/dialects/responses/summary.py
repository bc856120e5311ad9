"""The reply to a request to compact: one item that holds the summary, said when it is whole.

Clients show what streams as text, so nothing of a summary does; heartbeats tell them that it is being written.
"""

from __future__ import annotations

from proxy.codec.json_text import JsonObject
from proxy.dialects.block_start import TextKind
from proxy.dialects.responses.compaction import packed
from proxy.dialects.responses.output import Output, ReplyOptions
from proxy.engine.events import CallArguments, CallClosed, CallOpened
from proxy.errors import UpstreamBroken


class SummaryOutput(Output):
    """The stream of such a reply. What the model thinks is no part of the summary."""

    def __init__(self, options: ReplyOptions) -> None:
        super().__init__(options)
        self._summary: list[str] = []

    def _say(self, kind: TextKind, text: str) -> list[JsonObject]:
        if kind == "text":
            self._summary.append(text)
        return []

    def _of_call(self, event: CallOpened | CallArguments | CallClosed) -> list[JsonObject]:
        return []  # no tool is offered

    def _check_whole(self) -> None:
        """Half a summary is not told of, and neither is an empty one: all that it stands for would be lost."""
        if not self._text_so_far():
            raise UpstreamBroken("the model wrote no summary of the conversation")

    def _text_so_far(self) -> str:
        return "".join(self._summary).strip()

    def _end_text(self, status: str) -> list[JsonObject]:
        if status != "completed":
            return []
        index = self._new_item()
        item: JsonObject = {"id": f"cmp_{self._options.id}_{index}", "type": "compaction", "encrypted_content": ""}
        whole = {**item, "encrypted_content": packed(self._text_so_far())}
        return [self._added(index, item), self._done(index, whole)]
