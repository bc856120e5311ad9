"""A model server that renders the template named by `model`, and answers with the prompt.

The prompt is in hexadecimal digits, because the proxy would parse the calls in its history. A refusal of the template
is a 400 in vLLM's form.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tests.real.threaded import Handler, Listener, Threaded
from tests.support.chat_templates import Refused, templates


class _Renderer(Handler):
    def do_GET(self) -> None:
        """Return the list of models for any path."""
        cards = [{"id": template.name, "object": "model", "owned_by": "vllm"} for template in templates()]
        self.send_whole(200, {"object": "list", "data": cards})

    def do_POST(self) -> None:
        """Answer a conversation with its prompt."""
        body = self.body()
        by_name = {template.name: template for template in templates()}
        try:
            prompt = by_name[body["model"]].render(body)
        except Refused as refused:
            self.send_whole(400, {"error": {"message": str(refused), "type": "BadRequestError", "code": 400}})
            return
        message = {"role": "assistant", "content": prompt.encode().hex()}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        whole = {"id": "c", "object": "chat.completion", "created": 0, "model": body["model"]}
        self.send_whole(200, {**whole, "choices": [choice], "usage": usage})


@contextmanager
def rendering() -> Iterator[str]:
    """Yield the URL of a running server."""
    with Threaded(Listener(("127.0.0.1", 0), _Renderer)) as server:
        yield server.url
