"""The choice among several model servers: who gets a conversation, and when it goes elsewhere."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from proxy.dialects.conversation_key import conversation_key
from proxy.upstream.load_balancing import (
    CROWDED_MORE,
    CROWDED_TIMES,
    FIRST_OUT,
    LONGEST_OUT,
    PROBE_SECONDS,
    Load,
    order,
)

NAMES = tuple(f"http://gpu{number}:8000" for number in range(4))
KEYS = tuple(f"conversation {number}".encode() for number in range(2000))


def loads(*streams: int) -> dict[str, Load]:
    """As many servers, with so many streams."""
    return {name: Load(count) for name, count in zip(NAMES, streams, strict=False)}


def first(servers: dict[str, Load], key: bytes, now: float = 0.0, *, sticky: bool = True) -> str:
    return order(servers, key, now, sticky=sticky)[0]


def lost(servers: dict[str, Load], name: str, now: float = 0.0) -> None:
    """No connection can be made to one, now."""
    servers[name].failed(now, now)


def chat(*messages: tuple[str, Any], **more: Any) -> dict[str, Any]:
    return {"messages": [{"role": role, "content": content} for role, content in messages], **more}


TURN = (("system", "You code."), ("user", "Fix it."))


def test_every_server_is_in_the_order_once() -> None:
    for key in KEYS[:50]:
        for sticky in (True, False):
            assert sorted(order(loads(3, 0, 9, 1), key, 0.0, sticky=sticky)) == sorted(NAMES)


def test_a_conversation_goes_to_the_same_server_whatever_the_others_do() -> None:
    for key in KEYS[:100]:
        own = first(loads(0, 0, 0), key)
        assert {first(loads(*streams), key) for streams in ((1, 2, 3), (3, 1, 0), (4, 4, 4))} == {own}


def test_the_order_of_the_servers_in_the_settings_does_not_matter() -> None:
    """Each worker and each proxy chooses alike."""
    servers = loads(0, 0, 0, 0)
    backwards = dict(reversed(servers.items()))
    assert all(order(servers, key, 0.0, sticky=True) == order(backwards, key, 0.0, sticky=True) for key in KEYS[:200])


def test_conversations_are_spread_evenly() -> None:
    shares = Counter(first(loads(0, 0, 0, 0), key) for key in KEYS)
    assert all(abs(share - len(KEYS) / 4) < len(KEYS) / 20 for share in shares.values()) and len(shares) == 4


def test_one_server_more_takes_only_its_share_and_gives_it_back() -> None:
    three, four = loads(0, 0, 0), loads(0, 0, 0, 0)
    before, after = [[first(servers, key) for key in KEYS] for servers in (three, four)]
    moved = [new for old, new in zip(before, after, strict=True) if old != new]
    assert set(moved) == {NAMES[3]}
    assert abs(len(moved) - len(KEYS) / 4) < len(KEYS) / 20


def test_without_a_conversation_the_fewest_streams_count_and_the_key_among_equals() -> None:
    assert {first(loads(2, 1, 3), key, sticky=False) for key in KEYS[:50]} == {NAMES[1]}
    assert {first(loads(1, 1, 3), key, sticky=False) for key in KEYS[:50]} == {*NAMES[:2]}


@pytest.mark.parametrize("others", [(0,), (5,), (2, 4), (0, 0, 0)])
def test_a_server_that_is_crowded_is_left_and_one_that_is_just_not_is_kept(others: tuple[int, ...]) -> None:
    """Also of two, of which one never has twice the mean of both."""
    most = int(CROWDED_TIMES * sum(others) / len(others)) + CROWDED_MORE
    key = next(key for key in KEYS if first(loads(0, *(0 for _ in others)), key) == NAMES[0])
    assert first(loads(most, *others), key) == NAMES[0]
    fewest = min(range(len(others)), key=others.__getitem__)
    left = order(loads(most + 1, *others), key, 0.0, sticky=True)
    assert loads(most + 1, *others)[left[0]].streams == others[fewest] and left[-1] == NAMES[0]


def test_a_server_that_is_out_does_not_count_for_the_mean() -> None:
    servers = loads(9, 4, 0)
    key = next(key for key in KEYS if first(loads(0, 0, 0), key) == NAMES[0])
    assert first(servers, key) == NAMES[2]
    lost(servers, NAMES[2])
    assert first(servers, key) == NAMES[0]


def test_a_server_to_which_no_connection_can_be_made_is_left_for_the_one_with_the_fewest_streams() -> None:
    servers = loads(0, 3, 2)
    key = next(key for key in KEYS if first(loads(0, 0, 0), key) == NAMES[0])
    lost(servers, NAMES[0])
    assert order(servers, key, 0.1, sticky=True) == [NAMES[2], NAMES[1], NAMES[0]]
    assert order(servers, key, 0.1, sticky=False) == [NAMES[2], NAMES[1], NAMES[0]]


def test_while_all_are_out_they_are_tried_in_the_order_of_the_key() -> None:
    servers = loads(5, 0, 0)
    for name in servers:
        lost(servers, name)
    for key in KEYS[:50]:
        assert order(servers, key, 0.1, sticky=True) == order(loads(0, 0, 0), key, 0.1, sticky=False)


def test_it_is_out_for_a_second_then_for_twice_as_long_each_time_up_to_the_most() -> None:
    load, now, times = Load(), 100.0, []
    for _ in range(8):
        load.failed(now, now + 0.5)
        low, high = 0.0, 100.0
        while high - low > 1e-3:
            middle = (low + high) / 2
            low, high = (middle, high) if load.out(now + 0.5 + middle) else (low, middle)
        times.append(round(high, 2))
        now += 100.0
    assert times == [FIRST_OUT, 2.0, 4.0, 8.0, 16.0, LONGEST_OUT, LONGEST_OUT, LONGEST_OUT]
    load.failures = 100_000  # months of it
    load.failed(now, now)
    assert load.out(now + LONGEST_OUT - 0.1) and not load.out(now + LONGEST_OUT)


def test_after_its_time_one_request_tries_it_and_the_others_wait_for_how_that_fares() -> None:
    servers = loads(0, 0)
    key = next(key for key in KEYS if first(loads(0, 0), key) == NAMES[0])
    lost(servers, NAMES[0])
    assert first(servers, key, 0.99) == NAMES[1]
    assert first(servers, key, 1.0) == NAMES[0]
    servers[NAMES[0]].take(1.0)
    assert first(servers, key, 1.1) == NAMES[1]
    # One that was taken and never tried, because the request was refused before, does not keep it out.
    assert first(servers, key, 1.0 + PROBE_SECONDS) == NAMES[0]


def test_a_connection_that_was_made_ends_it_at_once() -> None:
    servers = loads(0, 0)
    key = next(key for key in KEYS if first(loads(0, 0), key) == NAMES[0])
    for at in (0.0, 10.0, 20.0):
        lost(servers, NAMES[0], at)
    servers[NAMES[0]].take(24.0)
    servers[NAMES[0]].made(24.0)
    assert first(servers, key, 24.0) == NAMES[0]
    lost(servers, NAMES[0], 25.0)
    assert servers[NAMES[0]].failures == 1 and not servers[NAMES[0]].out(26.0)


def test_many_that_began_before_the_first_of_them_failed_count_once() -> None:
    load = Load()
    for late in range(50):
        load.failed(0.0, 2.0 + late / 100)
    assert load.failures == 1 and not load.out(3.0)


def test_what_began_before_a_failure_says_nothing_about_after_it() -> None:
    load = Load()
    load.failed(1.0, 3.0)
    load.made(2.0)
    assert load.out(3.5)


def test_a_request_to_a_server_that_was_never_out_keeps_no_other_from_it() -> None:
    load = Load()
    load.take(1.0)
    assert load.free(1.0)


LATER = (
    ("assistant", "I look."),
    ("tool", "x = 1"),
    ("assistant", "Done."),
    ("user", "And now the tests."),
)


def test_all_turns_of_a_conversation_have_one_key_and_others_have_others() -> None:
    key = conversation_key("m", chat(*TURN))
    assert key == conversation_key("m", chat(*TURN, *LATER, tools=[1], temperature=0))
    others = [
        conversation_key("n", chat(*TURN)),
        conversation_key("m", chat(("system", "You write."), TURN[1])),
        conversation_key("m", chat(TURN[0], ("user", "Fix that."))),
        conversation_key("m", chat(TURN[1])),
        conversation_key("m", chat(TURN[0])),
        conversation_key("m", chat(("user", "You code."), ("user", "Fix it."))),
    ]
    assert len({key, *others}) == len(others) + 1 and all(others)


def test_a_text_is_the_same_as_a_string_and_in_parts_whatever_else_is_in_them() -> None:
    """Clients mark the end of what may be cached, at each turn another place."""
    marked = [{"type": "text", "text": "Fix it.", "cache_control": {"type": "ephemeral"}}]
    assert conversation_key("m", chat(TURN[0], ("user", marked))) == conversation_key("m", chat(*TURN))
    assert conversation_key("m", chat(("developer", "You code."), TURN[1])) == conversation_key("m", chat(*TURN))


def test_a_messages_request_says_its_system_beside_its_messages() -> None:
    parts = [{"type": "text", "text": "You code."}]
    asked = conversation_key("m", chat(TURN[1], system=parts))
    assert asked == conversation_key("m", chat(TURN[1], *LATER, system="You code.", max_tokens=5))
    assert asked != conversation_key("m", chat(TURN[1], system="You write."))


def test_claude_code_s_line_that_changes_at_each_turn_is_none_of_the_conversation() -> None:
    def turn(word: str) -> bytes:
        line = {"type": "text", "text": f"x-anthropic-billing-header: cc_version=2.1.197; cch={word};"}
        return conversation_key("m", chat(TURN[1], system=[line, {"type": "text", "text": "You code."}]))

    assert turn("a1") == turn("b2") == conversation_key("m", chat(TURN[1], system="You code."))


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"messages": None, "system": 5},
        {"messages": []},
        {"messages": ["a", 5, None]},
        chat(("assistant", "a")),
        chat(("user", None)),
        chat(("user", [{"type": "image_url"}])),
        {"prompt": "Once"},
    ],
)
def test_what_has_no_such_text_is_no_conversation(body: dict[str, Any]) -> None:
    assert conversation_key("m", body) == b""


def test_a_text_that_is_no_unicode_is_one_too() -> None:
    assert conversation_key("m", chat(("user", "\ud83d"))) != conversation_key("m", chat(("user", "\ud83e")))
