"""Traffic during a deployment: a long stream, and short requests one by one."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Iterator
from contextlib import closing

from tests.real.threaded import Handler, Listener, Threaded
from tests.support.helpers import received
from tests.support.scripted import DONE, PATIENCE, ROLE, chat, completion, finish, text

PATH = "/v1/chat/completions"
CALL = '<tool_call>\n{"name": "write_file", "arguments": {"path": "a", "content": "hi"}}\n</tool_call>'


class Upstream(Threaded[Listener]):
    """Context manager: a model server whose streams run until `end` is set."""

    def __init__(self) -> None:
        self.end = threading.Event()
        self.authorization = ""
        upstream = self

        class Model(Handler):
            def do_POST(self) -> None:
                body = self.body()
                upstream.authorization = self.headers.get("Authorization", "")
                if body.get("stream"):
                    self.send_stream(upstream.words())
                else:
                    self.send_whole(200, completion(CALL if body.get("tools") else "short"))

            def do_GET(self) -> None:
                self.send_whole(200, {})

        super().__init__(Listener(("127.0.0.1", 0), Model))

    def words(self) -> Iterator[bytes]:
        yield ROLE
        while not self.end.wait(0.1):
            yield text("a")
        yield from (finish(), DONE)

    def __exit__(self, *_: object) -> None:
        self.end.set()
        super().__exit__()


class Traffic:
    """Context manager: one stream, and requests one by one, each over a new connection."""

    def __init__(self, port: int, upstream: Upstream, *, streams: bool = True) -> None:
        self.failures = list[str]()
        self.answered = 0
        self.slowest = 0.0
        self.streamed = ""
        self._port = port
        self._upstream = upstream
        self._over = threading.Event()
        self._begun = threading.Event()
        self._threads = [threading.Thread(target=each) for each in (self._requests, self._stream)[: 1 + streams]]
        if not streams:
            self._begun.set()

    def __enter__(self) -> Traffic:
        self._upstream.end.clear()
        for thread in self._threads:
            thread.start()
        assert self._begun.wait(PATIENCE), "the stream did not begin"
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._upstream.end.set()
        for thread in self._threads:
            thread.join(PATIENCE)

    def _stream(self) -> None:
        try:
            with closing(http.client.HTTPConnection("127.0.0.1", self._port, timeout=PATIENCE)) as client:
                client.request("POST", PATH, json.dumps(chat()), {"Content-Type": "application/json"})
                response = client.getresponse()
                data = response.readline()
                self._begun.set()
                data += response.read()
            got = received(data)
            assert got.done and got.error is None, data[-300:]
            self.streamed = got[0].text
        except Exception as failure:
            self.failures.append(f"the stream: {failure!r}")

    def _requests(self) -> None:
        body = json.dumps(chat(stream=False))
        while not self._over.is_set():
            before = time.monotonic()
            try:
                with closing(http.client.HTTPConnection("127.0.0.1", self._port, timeout=PATIENCE)) as client:
                    client.request("POST", PATH, body, {"Content-Type": "application/json"})
                    response = client.getresponse()
                    told = json.loads(response.read())
                    assert response.status == 200 and told["choices"][0]["message"]["content"] == "short", told
                self.answered += 1
            except Exception as failure:
                self.failures.append(f"a request: {failure!r}")
            self.slowest = max(self.slowest, time.monotonic() - before)
            self._over.wait(0.02)
