"""One reader for calls in every notation: a wrapper, what stands in it, a name, keys and values, what closes them."""

from __future__ import annotations

import re
from typing import NamedTuple

import regex

from proxy.notations import tables as n
from proxy.notations.calls import NO_OPENER, Call, Opener
from proxy.notations.literals import STRICT, Literals
from proxy.notations.raw_values import Layout, Level
from proxy.notations.shapes import shapes
from proxy.notations.tags import CALL_END, CALL_TAG, WRAPPER_END, WRAPPER_TAG, TagReader, spelling
from proxy.notations.source import NeedMore, NoCall, Source, Tokens, Torn

_WORD_END = r"(?![\w-])"
# What may stand behind a value of JSON: an end tag, a token, the end of a fence.
CLOSING = regex.compile(
    r"\s*(?!<\|\"\|>|<escape>)(?:</[^<>\s]{1,60}>|<[|｜][^<>\n]{1,60}>|<\w+\|>|\[/?[A-Z_]+\]|```|>>>|\[e~\[|$)"
)
OPENERS = Tokens(n.TOKENS)
TOKEN_CLOSERS = {c for closers in n.TOKENS.values() for c in closers if len(c) > 1}
CLOSERS, FILLERS, NAME_FOLLOWS = Tokens(TOKEN_CLOSERS), Tokens(n.FILLERS), Tokens(n.NAME_FOLLOWS)
VALUE_END = regex.compile(r"</(?:[\w.-]+[:|])?(?:arg_value|parameter|param|argument|arg_key)(?::\w+)?>")
FENCE = regex.compile(r"```[ \t]*[\w+-]*[ \t]*\n?")
HARMONY = regex.compile(
    r"(?:<\|start\|>\s*)?(?:assistant)?\s*(?:to=(?P<role>[^\s<]+))?\s*(?P<channels>(?:<\|channel\|>\s*\w+\s*(?:to=[^\s<]+)?\s*)*)"
    r"(?P<constrained><\|constrain\|>)?\s*\w*\s*<\|message\|>\s*"
)
LEFT = Tokens((*n.END_OF_TURN, *TOKEN_CLOSERS))


class JsonArguments(NamedTuple):
    """Arguments in JSON, their end, whether what follows told where a string ends, and if brackets were missing."""

    value: dict
    end: int
    told: bool
    completed: bool


class CallReader:
    """Reads calls of the offered tools at positions of a source."""

    # Whether Python's one positional argument counts, and whether its strings must be exact.
    positional = exact = False

    def __init__(self, source: Source, tools, bare_names: bool = True) -> None:
        self.source, self.tools = source, tools
        self.layout = Layout()
        self.tags = TagReader(self)
        self.broken = False  # a call behind those that are returned cannot be read
        self.deep = False  # an offered tool was named: what cannot be read then may show anything
        self.bare_names = bare_names  # whether a name alone may begin a call

    def tool(self, name: str):
        """The offered tool that a name means, with the namespaces and counters that models put around it."""
        tool = self.tools.resolve(name)
        if tool is None and (bare := _NAMESPACED.fullmatch(name)):
            tool = self.tools.resolve(bare.group("N"))
        return tool

    def literals(self, tool, closers=CLOSING, **more):
        keys = frozenset(tool.properties) if tool else frozenset()
        return Literals(self.source, keys, closers, lists=frozenset(k for k in keys if tool.is_list(k)), **more)

    # -- wrappers -------------------------------------------------------------------------------------------------

    def opener(self, pos: int) -> Opener | None:
        source = self.source
        token = source.token(OPENERS, pos)
        if token:
            return Opener(
                pos + len(token),
                n.TOKENS[token],
                no_closer=token in n.NO_CLOSER,
                weak=token in n.WEAK_TOKENS,
                text=token,
            )
        if source.text.startswith(("<", "]"), pos):
            found = source.match(WRAPPER_TAG, pos)
            if found:
                name = re.search(r"name=[\"']?([^\"'>]+)", found.group()) if "name" in found.group() else None
                return Opener(found.end(), tag=True, name=name.group(1) if name else "", text=found.group())
        return None

    def closer(self, pos: int, opener: Opener) -> int:
        """The position behind the end of the wrapper that stands here; -1 if none does."""
        for token in opener.closers:
            if self.source.starts(token, pos):
                return pos + len(token)
        if self.source.text.startswith(("<", "]"), pos):
            found = self.source.match(WRAPPER_END, pos)
            if found:
                return found.end()
            return pos + len(token) if (token := self.source.token(CLOSERS, pos)) else -1
        return -1

    def wrapped(self, pos: int, depth: int = 0):
        """The calls in the wrapper that stands here, the position behind it, and whether it is closed."""
        if depth > 4:
            raise NoCall("too many wrappers")
        source, opener = self.source, self.opener(pos)
        self.positional = opener.text.startswith("<tool_code")
        self.layout.words = {Level.WRAPPER: spelling(opener.text) if opener.tag else ""}
        at, calls, closed, braces = opener.end, [], False, 0
        while True:
            start = at
            at = source.blanks(at)
            if at == source.size:
                break
            end = self.closer(at, opener)
            if end >= 0:
                at, closed = end, True
                break
            sign = source.text[at]
            if calls:
                if sign in ",;":
                    at += 1
                    continue
                if sign in "}]" and braces < 2 and not opener.no_closer and not source.starts(n.SEP, at):
                    at, braces = at + 1, braces + 1
                    continue
                if found := (source.match(CALL_END, at) or source.match(VALUE_END, at)) if sign in "<]" else None:
                    at = found.end()
                    continue
                if filler := source.token(FILLERS, at):
                    at += len(filler)
                    continue
                if self.ends_turn(at):
                    break
                if opener.no_closer and not (opener.text == "<|python_tag|>" and sign == "{"):
                    at = start
                    break
            if calls and calls[-1].tagged and not calls[-1].closed_itself:
                self.deep = True
                raise NoCall("another call begins before one is closed")
            if depth and not calls and opener.tag and source.text.startswith(opener.text, at):
                raise NoCall("the same wrapper again and again")
            try:
                got, at, inner_closed = self.body(at, opener, depth)
            except Torn:
                self.deep = True
                raise
            except NoCall:
                if not calls or depth:
                    if not calls:
                        raise
                if opener.tag and calls and (junk := source.match(JUNK, at)):
                    at = junk.end()
                    continue
                if calls and all(call.closed_itself for call in calls) and not opener.no_closer:
                    self.broken = self.deep
                    return calls, calls[-1].end, False
                raise
            calls += got
            if (
                inner_closed
                and not opener.closers
                and depth == 0
                and opener.tag
                and self._same(opener, pos, got)
            ):
                closed = True
        if not calls:
            raise NoCall("an empty wrapper")
        if opener.no_closer or (not closed and self._counts_open(calls)):
            closed = True
        return calls, at, closed and not opener.weak

    def _same(self, opener, pos, got) -> bool:
        """A wrapper whose opener stands there twice is closed by one closer."""
        return self.source.text[opener.end :].lstrip().startswith(opener.text.strip())

    def _counts_open(self, calls) -> bool:
        return False

    def ends_turn(self, pos: int) -> int:
        """The position behind an end-of-turn token that stands here; 0 if none does."""
        token = self.source.token(LEFT, pos)
        return pos + len(token) if token else 0

    def loose_ends(self, pos: int) -> bool:
        return False

    # -- what stands in a wrapper ---------------------------------------------------------------------------------

    def read_strong(self, pos: int):
        """Return the calls of the wrapper or the message that begins here, the position after it, and if it is closed.

        If text follows a raw value's closers, a second chain of them proves that the value shows the first.
        """
        calls, end, closed = self.strong(pos)
        value = self.tags.last
        if value is None or not self._text_follows(end):
            return calls, end, closed
        if not self.source.final:
            raise NeedMore
        if value.shown_chain(end):
            self.layout.after = end + 1
            self.deep = True
            return self.strong(pos)
        return calls, end, closed

    def _text_follows(self, pos: int) -> bool:
        """Return whether text follows that is no leftover and no other call's opener."""
        source = self.source
        while (pos := source.blanks(pos)) < source.size:
            found = self.ends_turn(pos)
            if not found and source.text[pos] in "<]":
                match = source.match(WRAPPER_END, pos) or source.match(CALL_END, pos) or source.match(VALUE_END, pos)
                found = match.end() if match else 0
            if not found:
                return not (source.match(n.STRONG, pos) or source.match(CALL_TAG, pos))
            pos = found
        return False

    def strong(self, pos: int):
        """The calls of the wrapper or the message that begins here."""
        if found := self.source.match(_ROUTED, pos):
            return self.wrapped(found.end())
        if self.source.text.startswith(("<|start|>", "<|channel|>", " to=", "to="), pos):
            return self.harmony(pos + (self.source.text[pos] == " "))
        return self.wrapped(pos)

    def body(self, pos: int, opener: Opener, depth: int):
        """One call or a list of them, told by the first characters."""
        source = self.source
        if pos >= source.size:
            raise NoCall("nothing")
        text, sign = source.text, source.text[pos]
        if filler := source.token(FILLERS, pos):
            return (
                self.body(source.blanks(pos + len(filler)), opener, depth)
                if not source.at_end(pos + len(filler))
                else self._nothing()
            )
        if opener.name and sign in "{<":
            return self.arguments(source.blanks(pos), opener.name, pos)
        if token := source.token(NAME_FOLLOWS, pos):
            return self.named(source.blanks(pos + len(token)), opener)
        if sign in "<]" and self.opener(pos):
            calls, end, closed = self.wrapped(pos, depth + 1)
            for call in calls:
                call.closed_itself |= closed
                if len(calls) == 1:
                    call.start, call.end = pos, end
            return calls, end, closed
        if sign == "`" and (fence := source.match(FENCE, pos)):
            at = source.blanks(fence.end())
            if source.text.startswith("`", at):
                raise NoCall("a fence in a fence")
            if (
                opener is NO_OPENER
                and not self.bare_names
                and at < source.size
                and text[at] in "<[]"
                and self.opener(at)
            ):
                raise NoCall("a wrapper in code")
            calls, at, _ = self.body(at, opener, depth)
            at = source.blanks(at)
            while (
                at < source.size
                and (text[at] in ",;{[<" or (opener is not NO_OPENER and text[at].isalpha()))
                and not source.starts("```", at)
            ):
                at = source.blanks(at + (text[at] in ",;"))
                more, at, _ = self.body(at, opener, depth)
                calls, at = calls + more, source.blanks(at)
            if source.starts("```", at):
                at += 3
            elif at == source.size and opener is NO_OPENER and not self.bare_names:
                raise NoCall("a fence that is not closed")
            elif at != source.size and not self.closer(at, opener) >= 0:
                raise NoCall("the end of the fence was expected")
            return calls, at, False
        if sign == "{":
            return self.json(pos)
        if sign == "[":
            after = source.blanks(pos + 1)
            if after < source.size and (text[after].isalpha() or text[after] == "_"):
                return self.python_list(pos)
            return self.json(pos)
        if sign in "<]":
            return self.tags.call(pos, opener)
        if opener.tag and source.match(_LOST_BRACKETS, pos):
            return self._without_brackets(pos, opener)
        if not self.bare_names:
            raise NoCall("a name alone")
        return self.named(pos, opener)

    def _without_brackets(self, pos: int, opener: Opener):
        """Calls in tags that lost their angle brackets: `invoke name="f">` … `invoke>`."""
        end = self.source.find("</", pos)
        if end < 0 or self.closer(end, opener) < 0:
            raise NoCall("the end of the wrapper was expected")
        text = _BARE_END.sub(r"</\1>", _LOST_BRACKETS.sub(r"<\g<0>", self.source.text[pos:end]))
        calls, _, _ = CallReader(Source(text, True), self.tools).tags.call(0, opener)
        for call in calls:
            call.start, call.end = pos, end
        return calls, end, False

    def _nothing(self):
        raise NoCall("nothing stands in it")

    def json(self, pos: int):
        """Calls as JSON."""
        literals = Literals(self.source, None, CLOSING)
        literals.keys_later = lambda: self._keys_near(pos)
        value, end = self.whole(literals, pos)
        self.deep |= literals.completed
        found = shapes(value, self.tools)
        if literals.completed and not all(shape.says_arguments for shape in found):
            raise NoCall("the arguments are missing")
        calls, spans = [], _item_spans(self.source.text, pos, end, len(found), value)
        for shape, (start, stop) in zip(found, spans):
            tool = self.tool(shape.name)
            arguments = without_residue(self.object(shape.arguments, tool), tool)
            calls.append(Call(tool, shape.name, arguments, start, stop, shape.clear, shape.id, literals.completed))
            calls[-1].json, calls[-1].in_list = shape.says_name, isinstance(value, list)
        for call in calls:
            call.told = literals.marks_told or literals.lost_comma or literals.completed
        if (
            not literals.plain
            and literals.marks_told
            and any(not c.tool or not set(c.arguments) <= set(c.tool.properties) for c in calls)
        ):
            self.deep = True
            raise NoCall("a string may end elsewhere")
        return calls, end, False

    def _keys_near(self, pos: int):
        """The keys of the tool that a text of JSON names."""
        found = _JSON_NAME.search(self.source.text, pos, pos + 2_000)
        tool = found and self.tools.resolve(found.group(1))
        return frozenset(tool.properties) if tool else frozenset(k for t in self.tools for k in t.properties)

    def whole(self, literals, at: int):
        """A value; where a string cannot be read, what follows may all be in it."""
        try:
            value, end = literals.whole(at)
            self._check_told(literals, at, end)
        except NoCall:
            self.deep |= literals.in_string
            raise
        return value, end

    def _check_told(self, literals: Literals, start: int, end: int) -> None:
        """Refuse a value whose strings were told by what follows, if it is not whole, or shows another call."""
        if not literals.marks_told:
            return
        if literals.completed or n.STRONG.search(self.source.text, start, end):
            literals.in_string = True
            raise NoCall("a string may end elsewhere")

    def json_arguments(self, at: int, tool) -> JsonArguments:
        """The object that a call's arguments are, and where it ends."""
        literals = self.literals(tool)
        value, end = self.whole(literals, at)
        value = without_residue(self.object(value, tool), tool)
        if literals.marks_told and not set(value) <= literals.keys:
            self.deep = True
            raise NoCall("a string may end elsewhere")
        told = literals.marks_told or literals.lost_comma or literals.completed
        return JsonArguments(value, end, told, literals.completed)

    def object(self, arguments, tool):
        """Arguments as an object: what a string of JSON says, a list of one."""
        for _ in range(2):
            if isinstance(arguments, str):
                if not arguments.strip():
                    arguments = {}
                    break
                inner = Source(arguments, True)
                literals = Literals(inner, frozenset(tool.properties) if tool else frozenset())
                arguments, end = literals.whole(inner.blanks(0))
                if not inner.at_end(end):
                    raise NoCall("more than an object")
        if isinstance(arguments, list) and len(arguments) == 1:
            arguments = arguments[0]
        if arguments is None:
            arguments = {}
        if not isinstance(arguments, dict):
            raise NoCall("arguments that are no object")
        return arguments

    # -- a name, then arguments -----------------------------------------------------------------------------------

    def named(self, pos: int, opener: Opener | None):
        """A name and its arguments."""
        source, start = self.source, pos
        if source.starts("call:", pos):
            pos = source.blanks(pos + 5)
        elif source.text.startswith(":", pos):
            pos += 1
        found = source.match(n.NAME, pos)
        if not found:
            raise NoCall("the name of a tool was expected")
        if not source.final and _NAME_GOES_ON.fullmatch(source.text, found.end()):
            raise NeedMore
        name, at = found.group(), source.blanks(found.end())
        if source.starts("<|content_invoke_tool_json|>", at):
            return self.wrapped(at, 1)
        if (
            source.text.startswith("<", at)
            and self.tools.resolve(name) is None
            and (split := self.tools.split(name))
            and source.match(_KEY_TAG, at)
        ):
            name, at = split[0].name, found.end() - len(split[1])
        if name == "function" and at < source.size and source.text[at] not in "{(":
            at = source.blanks(at + len(source.token(NAME_FOLLOWS, at)))
            if source.text.startswith("<", at) and source.match(CALL_TAG, at):
                return self.tags.call(at, opener)
            return self.named(at, opener)
        call_id = ""
        while True:
            if source.starts("[CALL_ID]", at):
                end = source.match(regex.compile(r"\[CALL_ID\]([\w.:-]+)"), at)
                call_id, at = end.group(1), source.blanks(end.end())
                continue
            follows = source.token(NAME_FOLLOWS, at)
            if follows:
                at = source.blanks(at + len(follows))
                if source.text.startswith(("{", "`"), at):
                    continue
                if source.match(CALL_TAG, at):
                    return self.tags.call(at, opener)
                return self.named(at, opener)
            filler = source.token(FILLERS, at)
            if filler:
                at = source.blanks(at + len(filler))
                continue
            if source.text.startswith("<", at) and (found := source.match(_TOOL_SEP, at)):
                at = source.blanks(found.end())
                continue
            if (
                source.text.startswith("<", at)
                and (found := source.match(VALUE_END, at))
                and not _KEY_END.match(found.group())
            ):
                at = source.blanks(found.end())
                continue
            break
        return self.arguments(at, name, start, call_id, opener)

    def arguments(self, at: int, name: str, start: int, call_id: str = "", opener=None):
        source = self.source
        tool = self.tool(name)
        if tool is None and source.text.startswith("(", at):
            tool = self.tool(name.removesuffix(".call"))
        sign = source.text[at : at + 1]
        if not call_id and re.fullmatch(r"functions\.[^\s:]+:[0-9]{1,6}", name):
            call_id = name
        keys = frozenset(tool.properties) if tool else frozenset()
        completed = told = False
        if sign == "{" and opener and opener.closers and opener.closers[0] in _GEMMA_ENDS:
            value, at, told = self._bare_arguments(at, tool, keys)
        elif sign == "{":
            read = self.json_arguments(at, tool)
            value, at, told, completed = read.value, read.end, read.told, read.completed
        elif sign == "`" and (fence := source.match(FENCE, at)):
            literals = Literals(source, keys, CLOSING)
            value, at = literals.whole(source.blanks(fence.end()))
            value = self.object(value, tool)
            at = source.blanks(at)
            if source.starts("```", at):
                at += 3
        elif sign == "(":
            value, at = self.parenthesised(at, tool)
        elif (
            sign == "<"
            or sign == "]"
            or (opener and opener.tag and tool and sign not in "({`" and self.tags.style(at, tool) == "pair")
        ):
            value, at, _ = self.tags.values(at, tool)
        elif sign == "" or (opener and (self.closer(at, opener) >= 0)):
            value = {}
        else:
            raise NoCall("the arguments were expected")
        if not value and (not sign or sign not in "{(`") and (tool is None or tool.required or not opener):
            raise NoCall("no arguments")
        call = Call(tool, name, value, start, at, id=call_id, completed=completed, bare=True)
        call.told = told
        return [call], at, False

    def _bare_arguments(self, at: int, tool, keys):
        """Gemma's object, whose strings may lack their delimiters."""
        literals = Bare(self.source, keys, CLOSING)
        value, end = self.whole(literals, at)
        value = without_residue(self.object(value, tool), tool)
        if literals.marks_told and not set(value) <= keys:
            self.deep = True
            raise NoCall("a string may end elsewhere")
        if tool and not literals.plain:
            value = {
                key: tool.typed(key, each) if isinstance(each, str) and each in literals.bares else each
                for key, each in value.items()
            }
        return value, end, literals.marks_told or literals.lost_comma or literals.completed

    def parenthesised(self, at: int, tool):
        """Python's arguments, or an object in brackets."""
        source = self.source
        literals = PythonBare(source, frozenset(tool.properties) if tool else frozenset(), None, python=True)
        after = literals.skip(at + 1)
        if (
            tool
            and len(tool.required) == 1
            and source.text[after : after + 1] in "\"'"
            and after < source.size
            and self.positional
        ):
            value, end = literals.value(after, 0)
            end = literals.skip(end)
            if not source.starts(")", end):
                raise NoCall("an end of the brackets was expected")
            return {next(iter(tool.required)): value}, end + 1
        if source.text.startswith("{", after):
            value, end = literals.value(after, 0)
            end = literals.skip(end)
            if not source.starts(")", end):
                raise NoCall("an end of the brackets was expected")
            return self.object(value, tool), end + 1
        value, end = literals.members(at + 1, ")", 0, ("=", ":"))
        if literals.completed:
            raise NoCall("brackets without their end")
        if literals.marks_told and self.exact:
            raise NoCall("a string may end elsewhere")
        if literals.bares and tool:
            value = {k: tool.typed(k, v) if isinstance(v, str) and v in literals.bares else v for k, v in value.items()}
        return value, end

    def python_list(self, pos: int):
        """`[NAME(…), NAME(…)]`."""
        source, calls = self.source, []
        at = pos + 1
        while True:
            at = source.blanks(at)
            if source.starts("]", at):
                break
            if calls and source.starts(",", at):
                at = source.blanks(at + 1)
                if source.starts("]", at):
                    break
            if at == source.size and calls:
                return calls, at, False
            found = source.match(_PYTHON_NAME, at)
            if not found:
                raise NoCall("the call of a function was expected")
            name, start = found.group(1), at
            tool = self.tool(name)
            value, at = self.parenthesised(found.end() - 1, tool)
            calls.append(Call(tool, name, value, start, at))
        if not calls:
            raise NoCall("an empty list")
        return calls, at + 1, False

    # -- harmony --------------------------------------------------------------------------------------------------

    def harmony(self, pos: int):
        """A message to a tool: its name stands in the header."""
        source = self.source
        found = source.match(HARMONY, pos)
        if not found:
            raise NoCall("no header")
        names = re.findall(r"to=([^\s<]+)", found.group())
        if not names:
            raise NoCall("the message goes to no tool")
        channels = set(re.findall(r"<\|channel\|>\s*(\w+)", found["channels"]))
        name = names[0]
        tool = self.tool(name)
        if name in ("self", "user", "all", "assistant") or (
            channels and not (channels == {"commentary"} or (found["constrained"] and channels == {"analysis"}))
        ):
            if channels != {"analysis"}:
                raise NoCall("a message that calls nothing")
        at, told = source.blanks(found.end()), False
        if at == source.size:
            raise NoCall("no arguments")
        if source.starts("<|call|>", at):
            return [Call(tool, name, {}, pos, at + 8)], at + 8, True
        if source.text[at] == "<":
            if self.opener(at):
                return self.wrapped(at)
            value, at, _ = self.tags.values(at, tool)
        else:
            if source.text[at] != "{":
                raise NoCall("no arguments")
            read = self.json_arguments(at, tool)
            value, at, told = read.value, read.end, read.told
        end = source.blanks(at)
        closed = False
        for token in ("<|call|>", "<|end|>", "<|eot|>", "<|eom|>", "<|return|>"):
            if source.starts(token, end):
                at, closed = end + len(token), token != "<|end|>" or channels != {"analysis"}
                break
        else:
            closed = source.starts("<|start|>", end)
            if end != source.size and not closed:
                raise NoCall("more than an object")
        if channels == {"analysis"} and not found["constrained"] and not source.text.endswith("<|call|>", 0, at):
            closed = False
        return [Call(tool, name, value, pos, at, told=told)], at, closed


class PythonBare(Literals):
    """Python's arguments, whose strings may lack their quotation marks: up to the next key or the end of the call."""

    def __init__(self, *args, **more) -> None:
        super().__init__(*args, **more)
        self.bares: set[str] = set()

    def bare(self, pos: int, ends: str):
        found = self.source.match(_PYTHON_BARE, pos)
        if not found or not found.group().strip():
            raise NoCall("no value")
        text = found.group().strip()
        if re.match(r"[A-Za-z]{1,2}[\"']", text) or text.count('"') % 2 or text.count("'") % 2:
            raise NoCall("a text without its last mark")
        if (re.search(r"[\"'+]|^\w+\(", text) and not self.keys) or re.fullmatch(r"[A-Za-z_]\w*\.?\w*\(.*\)", text):
            raise NoCall("no literal")
        self.bares.add(text)
        return text, found.end()


class Bare(Literals):
    """Literals in which strings may lack their quotation marks (Gemma)."""

    def __init__(self, *args, **more) -> None:
        super().__init__(*args, **more)
        self.bares: set[str] = set()

    def bare(self, pos: int, ends: str):
        found = self.source.match(_BARE, pos)
        if not found or not found.group().strip():
            raise NoCall("no value")
        text = found.group().strip()
        self.bares.add(text)
        return text, found.end()


_LOST_BRACKETS = regex.compile(r"(?<![<\w/])(?:invoke|parameter) name=")
_BARE_END = re.compile(r"(?<!<)(?<!</)/?(parameter|invoke)>")
_ROUTED = regex.compile(r" ?to=[\w.-]+(?=<[^|])")
JUNK = regex.compile(r"[^<>{}\[\]\"'`]{1,40}(?=<)")
_BARE = regex.compile(r"[^,}\]\n<]+")
_JSON_NAME = re.compile(r"[\"'](?:%s)[\"']\s*:\s*[\"']([^\"'\n]{1,200})[\"']" % "|".join(n.NAME_WORDS))
_PYTHON_BARE = regex.compile(
    r"(?:(?!,\s*[A-Za-z_]\w*\s*=|\)\s*(?:,\s*[A-Za-z_][\w.-]*\(|\]\s*(?:$|<|\n)))[^\n]|\n(?=[^\n]))+", regex.S
)
_NAMESPACED = re.compile(r"(?:(?:functions|default_api|google|mcp|tools?|api)[.:/])*(?P<N>[\w-]+?)(?:[.!:]\d{1,6})?")
_KEY_TAG = regex.compile(r"</[^<>\s]*arg_key[^<>\s]*>")
_NAME_GOES_ON = re.compile(r":\w*")
_GEMMA_ENDS = ("<tool_call|>", "<end_function_call>")
_PYTHON_NAME = regex.compile(r"([A-Za-z_][\w.-]*)\s*\(")
_TOOL_SEP = regex.compile(r"<(?:[\w.-]+[:|])?tool_sep(?::\w+)?>")
_KEY_END = re.compile(r"</[^>]*arg_key")


def _item_spans(text: str, pos: int, end: int, count: int, value) -> list:
    """Where each of several calls in one value stands."""
    if not isinstance(value, list) or len(value) != count or count < 2:
        return [(pos, end)] * count
    spans, at = [], pos + 1
    for _ in value:
        at = re.compile(r"[\s,]*").match(text, at).end()
        try:
            stop = STRICT.raw_decode(text, at)[1]
        except ValueError:
            return [(pos, end)] * count
        spans.append((at, stop))
        at = stop
    return spans


_RESIDUE = re.compile(
    r"\s*(?:</(?:parameter|arg_value)>)?\s*<(?:parameter=|arg_key>)([\w-]+)(?:>|</arg_key>)\s*(?:<arg_value>)?\s*\Z"
)


def without_residue(values: dict, tool):
    """The values without tags at their ends that name the next key (F17)."""
    keys = [*values]
    for key, following in zip(keys, keys[1:]):
        if isinstance(values[key], str) and (found := _RESIDUE.search(values[key])) and found.group(1) == following:
            values[key] = values[key][: found.start()]
    return values
