"""The head of a request, once it is here whole, in one match where it is as all agents write it.

gunicorn's parser goes through it line by line, and asks of each client whether it is a front whose word counts: a
thirtieth of a whole request. All that is not plain is left to that parser, which alone refuses.

gunicorn's configuration loads it by its path, so it imports nothing of the package.
"""

from __future__ import annotations

import re
from typing import Any

from gunicorn.http import message

# Without an underscore, which could stand for a dash; a value has no spaces around it and nothing but ASCII in it.
_FIELD = r"([!#-'*+.^`|~0-9A-Za-z-]+): ?([!-~]+(?:[ \t]+[!-~]+)*)\r\n"
_HEAD = re.compile(rf"([A-Z]{{3,20}}) (/[!-\"$-~]*) HTTP/1\.1\r\n((?:{_FIELD})*)\r\n")
_FIELDS = re.compile(_FIELD)
# By this field a client waits for leave to send its body. gunicorn looks at it, and at those by which a front says that
# it took a request over TLS.
_EXPECT = "EXPECT"


class Request(message.Request):
    """A request whose head is read as gunicorn's own does, and faster."""

    def parse(self, unreader: Any) -> bytes:
        """Take the head; what stands behind it is given back.

        Raises what gunicorn's parser raises.
        """
        data = unreader.read()
        if self._take_plain(data):
            return b""
        unreader.unread(data)
        rest: bytes = super().parse(unreader)
        return rest

    def _take_plain(self, data: bytes) -> bool:
        """Read a head that is nothing out of the ordinary; False if it is, and may have to be refused."""
        # No line of what is as short as that is too long.
        if len(data) > min(self.limit_request_line, self.limit_request_field_size):
            return False
        head = _HEAD.fullmatch(data.decode("latin-1"))
        if head is None:
            return False
        fields = [(name.upper(), value) for name, value in _FIELDS.findall(head[3])]
        names = {name for name, _ in fields}
        if len(names) < len(fields) or len(fields) > self.limit_request_fields:
            return False
        if _EXPECT in names or not names.isdisjoint(self.cfg.secure_scheme_headers):
            return False
        self.method, self.uri = head[1], head[2]
        self.path, _, self.query = self.uri.partition("?")
        self.fragment = ""
        self.version = (1, 1)
        self.headers = fields
        return True
