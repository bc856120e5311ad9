"""The bytes that matter in a string of JSON, or of Python, by its quotation mark."""

from __future__ import annotations

import re

IN_STRING = {b'"': re.compile(rb'["\\]'), b"'": re.compile(rb"['\\]")}
# JSON strings hold no control characters (RFC 8259, section 7); models write them all the same, but not in names.
IN_STRICT_STRING = {b'"': re.compile(rb'["\\\x00-\x1f]'), b"'": re.compile(rb"['\\\x00-\x1f]")}
# What a string of any length is passed over by: what those do not stop at, and whole escapes.
WITHIN_STRING = {
    stop: re.compile(rb"[^%b]*+(?:\\[\x00-\xff][^%b]*+)*+" % ((stop.pattern[1:-1],) * 2))
    for stop in (*IN_STRING.values(), *IN_STRICT_STRING.values())
}
# What is read on to in a string in double quotation marks.
DOUBLE_QUOTED = (IN_STRING[b'"'], IN_STRICT_STRING[b'"'])
