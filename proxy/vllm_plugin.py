"""Tool parser plugin for vLLM, for setups that cannot run the proxy. Install this package next to vLLM, then run

    vllm serve MODEL --enable-auto-tool-choice --tool-parser-plugin proxy.vllm_plugin --tool-call-parser tool_proxy

The plugin finds and repairs calls in every notation. Healing requests, retries and rules need the proxy. For vLLM 0.32.

vLLM does not pass the finish reason to a parser, but a call that was cut off must not be completed (contract C4). A
streamed reply counts as cut off unless its last token is a special token. A whole reply counts as cut off if it is
nearly as long as the request allows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from vllm.entrypoints.generate.base.protocol import (
    DeltaFunctionCall,
    DeltaMessage,
    DeltaToolCall,
    ExtractedToolCallInformation,
    FunctionCall,
    ToolCall,
)
from vllm.tool_parsers.abstract_tool_parser import ToolParser, ToolParserManager

from proxy import library

_NEARLY = 0.9  # the share of the allowed tokens at which a whole reply counts as cut off


@ToolParserManager.register_module("tool_proxy")
class ToolProxyParser(ToolParser):  # type: ignore[misc, unused-ignore]
    """The parser for one request."""

    engine_based_streaming = True  # makes vLLM call `finish_streaming`

    def __init__(self, tokenizer: Any, tools: Any = None) -> None:
        super().__init__(tokenizer, tools)
        self._stream: library.CallStream | None = None
        self._last_token: int | None = None
        self._calls = 0

    def adjust_request(self, request: Any) -> Any:
        """Keep special tokens in the text, because many notations consist of them."""
        request = super().adjust_request(request)
        if request.tools and request.tool_choice in ("auto", None):
            request.skip_special_tokens = False
        return request

    def extract_tool_calls(self, model_output: str, request: Any) -> ExtractedToolCallInformation:
        """Read a whole reply."""
        stream = _new_stream(request)
        allowed = getattr(request, "max_completion_tokens", None) or getattr(request, "max_tokens", None)
        cut = allowed is not None and len(self.model_tokenizer.encode(model_output)) >= _NEARLY * allowed
        found = [*stream.feed(model_output), *stream.finish("length" if cut else "stop")]
        text, calls = "", list[ToolCall]()
        for each in found:
            if isinstance(each, str):
                text += each
            else:
                calls.append(ToolCall(id=each.id, function=FunctionCall(name=each.name, arguments=each.arguments)))
        return ExtractedToolCallInformation(tools_called=bool(calls), tool_calls=calls, content=text or None)

    def extract_tool_calls_streaming(
        self, _before: str, _now: str, delta_text: str,
        _ids_before: Sequence[int], _ids_now: Sequence[int], delta_ids: Sequence[int], request: Any,
    ) -> DeltaMessage | None:
        """Take the next text of a stream and return the text and calls found so far."""
        if self._stream is None:
            self._stream = _new_stream(request)
        self._last_token = delta_ids[-1] if delta_ids else self._last_token
        return self._message(self._stream.feed(delta_text))

    def finish_streaming(self) -> DeltaMessage | None:
        """Return the rest of a stream."""
        if self._stream is None:
            return None
        stopped = self._last_token in self.model_tokenizer.all_special_ids
        return self._message(self._stream.finish("stop" if stopped else "length"))

    def _message(self, found: Iterable[str | library.ToolCall]) -> DeltaMessage | None:
        text, calls = "", list[DeltaToolCall]()
        for each in found:
            if isinstance(each, str):
                text += each
            else:
                function = DeltaFunctionCall(name=each.name, arguments=each.arguments)
                calls.append(DeltaToolCall(index=self._calls, id=each.id, type="function", function=function))
                self._calls += 1
        return DeltaMessage(content=text or None, tool_calls=calls) if text or calls else None


def _new_stream(request: Any) -> library.CallStream:
    asked = request.model_dump(mode="json", include={"tools", "messages", "response_format"})
    json_reply = (asked.get("response_format") or {}).get("type") in ("json_object", "json_schema")
    # vLLM also calls the parser with `none`, and drops the calls that it returns.
    tools = [] if request.tool_choice == "none" else asked["tools"] or []
    return library.CallStream(tools, asked.get("messages", ()), json_reply=json_reply, special_tokens=True)
