"""The readers and writers of `json.py`: surrogates, huge integers, duplicate keys, and depth."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.json import (
    Json,
    canonical,
    dump,
    dump_inner,
    dump_json,
    dump_request,
    dump_strict,
    load_chunk,
    load_json,
    load_prefix,
    load_upstream,
    read_json,
)

SURROGATE = "\ud800"
HUGE = 10**30
DEEP = "[" * 200_000 + "]" * 200_000
Reader = Callable[[str], Json]


def _load_chunk(text: str) -> Json:
    return load_chunk(text.encode())[0]


def _load_prefix(text: str) -> Json:
    value, end = load_prefix(text + " and more", 0)
    assert end == len(text)
    return value


def _load_bytes(text: str) -> Json:
    return load_json(text.encode())


READERS: dict[str, Reader] = {
    "load_json": load_json,
    "of bytes": _load_bytes,
    "load_chunk": _load_chunk,
    "load_upstream": lambda text: load_upstream(text.encode())[0],
    "load_prefix": _load_prefix,
}


@pytest.mark.parametrize("name", [*READERS, "read_json"])
def test_readers_accept_lone_surrogates(name: str) -> None:
    assert {**READERS, "read_json": read_json}[name]('"\\ud800"') == SURROGATE


@pytest.mark.parametrize("name", READERS)
def test_the_last_of_two_equal_keys_counts(name: str) -> None:
    assert READERS[name]('{"a": 1, "a": 2}') == {"a": 2}


def test_arguments_of_a_call_must_not_contain_a_key_twice() -> None:
    with pytest.raises(ValueError, match=r"the key .b. occurs twice"):
        read_json('{"a": 1, "b": 2, "b": 3}')


@pytest.mark.parametrize("name", [*READERS, "read_json"])
def test_values_nested_beyond_the_stack_raise_value_error(name: str) -> None:
    with pytest.raises(ValueError, match="nested too deeply"):
        {**READERS, "read_json": read_json}[name](DEEP)


def test_readers_accept_huge_integers() -> None:
    assert (load_json(str(HUGE)), read_json(str(HUGE)), _load_prefix(str(HUGE))) == (HUGE, HUGE, HUGE)
    assert _load_bytes(f'[{HUGE}, "1"]') == [HUGE, "1"]
    assert _load_chunk(str(HUGE)) == 1e30


# Numbers on which readers differ: 19 digits, limits of 64-bit integers and floats, and minus zero.
_NUMBERS = st.sampled_from(
    [*("-0", "-0.0", "1e5", "1E-7", "0.1000000000000000055511151231257827", "1e308", "5e-324", "1e-400")]
    + [f"{sign}{2**bits + more}" for sign in ("", "-") for bits in (53, 63, 64) for more in (-1, 0, 1)]
)
_STRINGS = st.text().map(json.dumps) | st.text().map(lambda text: json.dumps(text, ensure_ascii=False))
_VALUES = st.recursive(
    _NUMBERS | _STRINGS | st.sampled_from(["null", "true", "false"]),
    lambda inner: (
        st.lists(inner).map(lambda texts: f"[{', '.join(texts)}]")
        | st.lists(st.tuples(_STRINGS, inner)).map(
            lambda pairs: f"{{{', '.join(f'{key}: {value}' for key, value in pairs)}}}"
        )
    ),
)


@pytest.mark.slow
@given(_VALUES)
def test_bytes_are_read_like_pythons_json_reads_them(text: str) -> None:
    data = text.encode("utf-8", "surrogatepass")
    assert repr(load_json(data)) == repr(json.loads(text))


_LONG = "12345678901234567890123"
_LONG_TEXTS = (
    *(_LONG, f"-{_LONG}", f" {_LONG}", f"\t-{_LONG}\r\n", f"[\n{_LONG}]", f"[1,\r{_LONG}]"),
    *(f"[{_LONG},-{_LONG}]", f'{{"a":{_LONG},"b": -{_LONG}}}'),
    *(f"0.{_LONG}", f"-1.{_LONG}", f"{_LONG}.5", f"1{_LONG}e5", f"1e{'0' * 30}5", f"1E-{'0' * 30}5", f"1e{_LONG}"),
    *(f"1.5e+{'0' * 30}308", f"1e{'0' * 30}400", f"0{_LONG}", f"--{_LONG}", f"+{_LONG}", f".{_LONG}", f"a{_LONG}"),
    *(f'"{_LONG}"', f'"a-{_LONG}"', f'"a {_LONG}"', f'"{_LONG}', f'["a-{_LONG}", {_LONG}]', f'["{_LONG}",{_LONG}]'),
    *(f"[{', '.join([repr(_LONG)] * count)}, {_LONG}]".replace("'", '"') for count in range(1, 12)),
    *(f"[{', '.join([repr(_LONG)] * count)}]".replace("'", '"') for count in range(1, 12)),
)


@pytest.mark.parametrize("text", _LONG_TEXTS)
def test_long_numbers_are_read_like_pythons_json_reads_them(text: str) -> None:
    def read(data: str | bytes) -> str:
        try:
            return repr(load_json(data))
        except ValueError:
            return "no JSON"

    assert read(text.encode()) == read(text)


@pytest.mark.parametrize("load", [load_chunk, load_upstream])
@pytest.mark.parametrize(
    ("data", "written"),
    [
        (b'{"a": NaN, "b": [Infinity, -Infinity]}', b'{"a":null,"b":[null,null]}'),
        (b'{"a": [1e999, -1E999, ' + b"7" * 5_000 + b"]}", b'{"a":[null,null,null]}'),
        (b'{"a": "\x00\t\x1f"}', b'{"a":"\\u0000\\t\\u001f"}'),
        (b'\xef\xbb\xbf{"a": 1}', b'{"a":1}'),
        (b'{"a": "\xff"}', '{"a":"\ufffd"}'.encode()),
        (b'{"a": "\xed\xa0\xbd"}', '{"a":"\ufffd\ufffd\ufffd"}'.encode()),
    ],
)
def test_lenient_json_is_rewritten_as_strict_json(
    load: Callable[[bytes], tuple[Json, bool]], data: bytes, written: bytes
) -> None:
    value, is_strict = load(data)
    assert (dump_json(value), dump_strict(value), is_strict) == (written, written, False)


@pytest.mark.parametrize("load", [load_chunk, load_upstream])
@pytest.mark.parametrize("data", [b"", b"oops", b'{"a": nan}', b'{"a": 1', b"{'a': 1}", b'["\t",' + b"[" * 9**6])
def test_invalid_json_raises_value_error(
    load: Callable[[bytes], tuple[Json, bool]], data: bytes
) -> None:
    with pytest.raises(ValueError):
        load(data)


@pytest.mark.parametrize("name", ["load_json", "of bytes", "read_json"])
@pytest.mark.parametrize("text", ["NaN", "Infinity", "[-Infinity]"])
def test_numbers_outside_json_are_refused(name: str, text: str) -> None:
    with pytest.raises(ValueError, match="JSON"):
        {**READERS, "read_json": read_json}[name](text)


@pytest.mark.parametrize(
    ("write", "surrogate"),
    [
        (lambda value: dump_json(value).decode(), '{"a":"\\ud800é"}'),
        (lambda value: dump_strict(value).decode(), '{"a":"\ufffdé"}'),
        (lambda value: dump_request(value).decode(), '{"a":"\\ud800\\u00e9"}'),
        (dump, '{"a": "\\ud800\\u00e9"}'),
        (dump_inner, '{"a":"\ud800é"}'),
    ],
    ids=["dump_json", "dump_strict", "dump_request", "dump", "dump_inner"],
)
def test_writers_handle_lone_surrogates_and_huge_integers(write: Callable[[Json], str], surrogate: str) -> None:
    written = write({"a": f"{SURROGATE}é"})
    assert written.replace("\\u00e9", "é") == surrogate.replace("\\u00e9", "é")
    assert write({"a": HUGE}).replace(" ", "") == f'{{"a":{HUGE}}}'


def test_numbers_in_arguments_keep_their_spelling() -> None:
    for text in ("1.10", "1e999", "-0.0", "1E5", "9" * 5000):
        assert dump(read_json(f'{{"a": {text}}}')) == f'{{"a": {text}}}'


@pytest.mark.parametrize("write", [dump, dump_inner])
def test_unwritable_values_raise_value_error(write: Callable[[Json], str]) -> None:
    value: Json = 1
    for _ in range(200_000):
        value = [value]
    with pytest.raises(ValueError, match="nested too deeply"):
        write(value)


def test_equal_arguments_have_the_same_canonical_text() -> None:
    assert canonical('{"b": 1, "a": [2]}') == canonical('{"a":[2],"b":1}')
    assert canonical("not JSON") == "not JSON"
