"""One choice: its text, its calls of both kinds, what only repeats them, and its true finish (contracts C1 to C5)."""

from __future__ import annotations

from typing import Any

from proxy.engine.choice import Choice
from proxy.engine.choice_delta import read_choice
from proxy.engine.events import CallOpened, Event, Failed, Finished, Reasoning, Text, Unchanged
from proxy.engine.pending_call import CallLimits
from proxy.notations.reply import Channel
from proxy.repair.policy import Policy
from proxy.repair.repairer import Repairer
from tests.support.helpers import call_json, chunk, delta, new_scanner, offered, piece, view

LS = '{"command": "ls"}'
WRITTEN = f"<tool_call>\n{call_json('bash', command='ls')}\n</tool_call>"


def new_choice(**given: Any) -> Choice:
    """A choice of a stream; its own ids are `new0`, `new1`, …"""
    repairer = Repairer(offered(), Policy())
    return Choice(
        number=0,
        reader=new_scanner(),
        reasoning_reader=new_scanner(channel=Channel.REASONING),
        repairer=repairer,
        new_id=lambda index, *_: f"new{index}",
        limits=CallLimits(),
        used=set(),
        **given,
    )


def feed(choice: Choice, finish: str | None = None, **said: Any) -> tuple[Event, ...]:
    """Feed a chunk that says this and nothing of other choices."""
    entry = delta(finish=finish, **said)
    return choice.feed(chunk(entry), read_choice(entry), alone=True)


def ids(choice: Choice) -> list[str]:
    """What was repaired."""
    return [repair.id for repair in choice.audit]


def test_prose_leaves_as_it_came() -> None:
    """C1."""
    (event,) = feed(new_choice(), content="Let me look.")
    assert isinstance(event, Unchanged)
    assert event.events == (Text(0, "Let me look."),)


def test_reasoning_leaves_as_it_came() -> None:
    (event,) = feed(new_choice(), reasoning="why")
    assert isinstance(event, Unchanged)
    assert event.events == (Reasoning(0, "why"),)


def test_what_may_become_a_call_waits_and_is_released_as_text() -> None:
    """C2."""
    choice = new_choice()
    assert feed(choice, content="<tool_c") == ()
    assert choice.held
    (event,) = choice.release()
    assert isinstance(event, Unchanged)
    assert not choice.held


def test_the_prose_before_what_may_become_a_call_can_be_flushed() -> None:
    """C2: it gives up to leave as it came."""
    choice = new_choice()
    assert feed(choice, content="Look. <tool_c") == ()
    assert choice.flush_prose() == (Text(0, "Look. "),)
    assert choice.flush_prose() == ()


def test_a_call_in_the_text_is_a_call_and_its_finish_says_so() -> None:
    """F1, C4."""
    choice = new_choice()
    events = [*feed(choice, content=f"Look.\n{WRITTEN}"), *feed(choice, "stop"), *choice.end()]
    seen = view(events)[0]
    assert (seen.calls, seen.text.strip()) == ([("bash", LS)], "Look.")
    assert isinstance(events[-1], Finished) and events[-1].reason == "tool_calls"
    assert ids(choice) == ["text_call", "finish"]


def test_a_structured_call_leaves_as_it_came() -> None:
    """C1."""
    choice = new_choice()
    events = feed(choice, tool_calls=[piece(0, LS, "bash", "a")]) + feed(choice, "tool_calls") + choice.end()
    assert [event for event in events if isinstance(event, CallOpened | Text)] == []
    assert view(events)[0].calls == [("bash", LS)]
    assert choice.audit == []


def test_content_that_only_repeats_the_call_behind_it_is_dropped() -> None:
    """F28."""
    choice = new_choice()
    events = feed(choice, tool_calls=[piece(0, LS, "bash", "a")])
    events += feed(choice, content=LS) + feed(choice, "tool_calls") + choice.end()
    assert (view(events)[0].calls, view(events)[0].text) == ([("bash", LS)], "")
    assert ids(choice) == ["echo"]


def test_content_that_begins_like_the_call_and_goes_on_otherwise_is_content() -> None:
    """C4: nothing that the model wrote is lost."""
    choice = new_choice()
    events = feed(choice, tool_calls=[piece(0, LS, "bash", "a")])
    events += feed(choice, content=LS[:9]) + feed(choice, content=" is what I did") + choice.end()
    assert view(events)[0].text == f"{LS[:9]} is what I did"


def test_a_call_in_the_text_that_the_server_found_too_is_one() -> None:
    """F28."""
    choice = new_choice()
    events = feed(choice, tool_calls=[piece(0, LS, "bash", "a")])
    events += feed(choice, content=f"\n{WRITTEN}") + choice.end()
    assert view(events)[0].calls == [("bash", LS)]


def test_a_call_at_the_end_of_the_reasoning_is_one_if_there_is_nothing_else() -> None:
    """F70."""
    choice = new_choice()
    events = feed(choice, reasoning=f"I look.\n{WRITTEN}") + feed(choice, "stop") + choice.end()
    assert view(events)[0].calls == [("bash", LS)]
    choice = new_choice()
    events = feed(choice, reasoning=f"I look.\n{WRITTEN}") + feed(choice, content="Done.") + choice.end()
    assert view(events)[0].calls == []


def test_a_client_that_wants_one_call_gets_one() -> None:
    """F52: each further one is noted once, in whatever way it came."""
    choice = new_choice(one_call=True)
    events = feed(choice, tool_calls=[piece(0, LS, "bash", "a")])
    events += feed(choice, tool_calls=[piece(1, LS, "bash", "b")]) + feed(choice, "tool_calls") + choice.end()
    assert view(events)[0].calls == [("bash", LS)]
    assert ids(choice) == ["one_call"]
    choice = new_choice(one_call=True)
    events = feed(choice, content=f"{WRITTEN}\n{WRITTEN}") + choice.end()
    assert view(events)[0].calls == [("bash", LS)]
    assert ids(choice).count("one_call") == 1


def test_a_reply_that_was_cut_keeps_its_finish() -> None:
    """C4."""
    choice = new_choice()
    events = feed(choice, tool_calls=[piece(0, LS, "bash", "a")]) + feed(choice, "length") + choice.end()
    assert view(events)[0].finish == "length"


def test_a_call_that_cannot_be_finished_fails_the_reply() -> None:
    """C4: nothing follows."""
    choice = new_choice()
    feed(choice, tool_calls=[piece(0, '{"command": "l', "bash", "a")])
    feed(choice, "stop")
    assert isinstance(choice.end()[-1], Failed)
    assert choice.refused == {"half_call": 1}


def test_a_call_without_what_its_tool_requires_is_counted() -> None:
    """F25."""
    choice = new_choice()
    feed(choice, tool_calls=[piece(0, "{}", "bash", "a")])
    choice.end()
    assert choice.empty_calls == 1


def test_a_list_of_no_calls_is_noted_once() -> None:
    choice = new_choice()
    for _ in range(3):
        feed(choice, content="a", tool_calls=[])
    assert ids(choice) == ["empty_calls"]


def test_the_fast_path_is_for_prose_behind_which_nothing_waits() -> None:
    choice = new_choice()
    feed(choice, content="Let me")
    assert choice.fast_path(" look", reasoning=False)
    assert not choice.fast_path("<tool_call>", reasoning=False)
    assert feed(choice, content="<tool_c") == ()
    assert not choice.fast_path("a", reasoning=False)
    assert choice.fast_path("why", reasoning=True)


def test_the_fast_path_of_reasoning_keeps_the_order_for_a_client_that_has_one() -> None:
    choice = new_choice(ordered=True)
    assert choice.fast_path("why", reasoning=True)
    assert feed(choice, content="<tool_c") == ()
    assert not choice.fast_path("why", reasoning=True)


def test_text_after_the_fast_path_is_counted_on() -> None:
    """The positions of what waits are those of all the text."""
    choice = new_choice()
    feed(choice, content="Die ")
    assert choice.fast_path("Größe ", reasoning=False)
    events = feed(choice, content=f"ist\n{WRITTEN}") + choice.end()
    assert view(events)[0].text.strip() == "ist"
    assert view(events)[0].calls == [("bash", LS)]
