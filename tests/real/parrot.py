"""The parrot: a small GGUF model that says scripted texts, so that tests can drive a real llama.cpp server.

A small trained model does not call tools reliably. Here the server is real (HTTP, template, tokenizer, sampler, its own
tool parser, streaming), and only the choice of tokens is scripted: attention and feed-forward weights are zero, so the
next token depends only on the last one, and every piece of every script is a separate token.

A prompt selects its script by the marker `[[script:NAME]]`, and its turn by the tool results after the marker. Without
a marker, the template is ordinary ChatML, and the reply is meaningless.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
from gguf import GGUFWriter, TokenType

FOLDER = Path(__file__).parent
WIDTH = 1024  # so wide that random vectors are nearly orthogonal, and the next token is unambiguous
HEADS = 4
FEED_FORWARD = 32
UNKNOWN, BEGIN, END = 0, 1, 2
SHORTEST = 3  # characters; there are too few distinct shorter pieces

Floats = npt.NDArray[np.float32]


class Vocabulary:
    """Tokens with their kinds and successors."""

    def __init__(self) -> None:
        self.tokens = ["<unk>", "<s>", "<|im_end|>", "<|im_start|>"]
        self.kinds = [TokenType.UNKNOWN, TokenType.CONTROL, TokenType.CONTROL, TokenType.CONTROL]
        self.tokens += [f"<0x{byte:02X}>" for byte in range(256)]
        self.kinds += [TokenType.BYTE] * 256
        self.next: dict[int, int] = {}
        self._taken = set(self.tokens)
        self._tails: dict[str, int] = {"": END}  # remaining text -> its first token

    def add(self, text: str, kind: TokenType) -> int:
        """Add a new token and return its number."""
        self._taken.add(text)
        self.tokens.append(text)
        self.kinds.append(kind)
        return len(self.tokens) - 1

    def start(self, name: str, turn: int, text: str) -> None:
        """Add the start token of a script's turn, followed by its text."""
        self.next[self.add(f"<|go:{name}:{turn}|>", TokenType.CONTROL)] = self._chain(text)

    def said(self, name: str, turn: int) -> str:
        """Return the text that follows the start token of a script's turn."""
        token = self.next[self.tokens.index(f"<|go:{name}:{turn}|>")]
        text = ""
        while token != END:
            text += self.tokens[token]
            token = self.next[token]
        return text

    def _chain(self, text: str) -> int:
        """Add the tokens of `text` and return the first one. Tails in common with other scripts are shared."""
        pieces, tail = cut(text, self._taken, self._tails)
        after = self._tails[tail]
        rest = tail
        for piece in reversed(pieces):
            token = self.add(piece, TokenType.USER_DEFINED)
            self.next[token] = after
            rest = piece + rest
            self._tails[rest] = after = token
        return after


def cut(text: str, taken: Collection[str], tails: Collection[str]) -> tuple[list[str], str]:
    """Cut `text` into distinct pieces that are not in `taken`, and a rest that is one of `tails`.

    Raises `ValueError` if that is impossible, because the text is a piece of another one.
    """
    pieces: list[str] = []
    while text not in tails:
        used = {*taken, *pieces}
        size = SHORTEST
        while size < len(text) and (text[:size] in used or _ends_a_tag(text[:size])):
            size += 1
        if len(text) - size < SHORTEST:
            size = len(text)
        piece, text = text[:size], text[size:]
        while piece in used:  # only at the end of the text: join it to the previous piece
            if not pieces:
                raise ValueError(f"a script cannot be a piece of another: {piece!r}")
            piece = pieces.pop() + piece
        pieces.append(piece)
    return pieces, text


def _ends_a_tag(piece: str) -> bool:
    """Return whether `piece` ends with a tag and must be longer.

    llama.cpp's grammar applies after `<tool_call>`. After a token that ends there, it would change the model's next
    token. A token that continues past the tag is accepted if it matches the grammar, and an error otherwise.
    """
    return piece.rstrip("\n").endswith(">")


def vocabulary(scripts: Mapping[str, Sequence[str]]) -> Vocabulary:
    """Return the vocabulary for all turns of all scripts."""
    made = Vocabulary()
    for name, turns in scripts.items():
        for turn, text in enumerate(turns):
            made.start(name, turn, text)
    return made


def weights(words: Vocabulary) -> tuple[Floats, Floats]:
    """Return the embedding and output matrices, which give each token's successor the highest score.

    Raises `ValueError` if the random vectors give another token a higher score.
    """
    size = len(words.tokens)
    embedding = np.random.default_rng(0).choice(np.array([-1.0, 1.0], np.float32), size=(size, WIDTH))
    output = np.zeros((size, WIDTH), np.float32)
    for token, after in words.next.items():
        output[after] += embedding[token]
    best = (embedding @ output.T).argmax(axis=1)
    wrong = [token for token, after in words.next.items() if best[token] != after]
    if wrong:
        raise ValueError(f"{len(wrong)} tokens have the wrong successor")
    return embedding, output


def template(without_marker: str = "chatml_tools.jinja") -> str:
    """Return the chat template: a script's start token, or ChatML with tools for prompts without a marker."""
    scripted = (FOLDER / "script.jinja").read_text(encoding="utf-8")
    ordinary = (FOLDER / without_marker).read_text(encoding="utf-8")
    return scripted.replace("@@without_marker@@", ordinary)


def build(scripts: Mapping[str, Sequence[str]], path: Path) -> None:
    """Write the model that says `scripts` (name -> text of turn 0, text of all later turns) to `path`.

    Raises `ValueError` if the model would say something else.
    """
    words = vocabulary(scripts)
    for name, turns in scripts.items():
        for turn, text in enumerate(turns):
            if words.said(name, turn) != text:
                raise ValueError(f"script {name}, turn {turn}, differs from what the model would say")
    writer = GGUFWriter(path, "llama")
    _describe(writer, words)
    _tensors(writer, *weights(words))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _describe(writer: GGUFWriter, words: Vocabulary) -> None:
    """Write the shape of the network, the vocabulary and the template."""
    writer.add_name("parrot")
    writer.add_context_length(131072)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(1)
    writer.add_feed_forward_length(FEED_FORWARD)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(1)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_vocab_size(len(words.tokens))
    writer.add_file_type(0)
    writer.add_tokenizer_model("llama")
    writer.add_token_list(words.tokens)
    writer.add_token_scores([0.0] * len(words.tokens))
    writer.add_token_types([int(kind) for kind in words.kinds])
    writer.add_bos_token_id(BEGIN)
    writer.add_eos_token_id(END)
    writer.add_unk_token_id(UNKNOWN)
    writer.add_add_bos_token(False)
    writer.add_add_space_prefix(False)
    writer.add_chat_template(template())


def _tensors(writer: GGUFWriter, embedding: Floats, output: Floats) -> None:
    """Write the two matrices, and one block without effect."""
    ones, per_head = np.ones(WIDTH, np.float32), WIDTH // HEADS
    writer.add_tensor("token_embd.weight", embedding.astype(np.float16))
    writer.add_tensor("output_norm.weight", ones)
    writer.add_tensor("output.weight", output.astype(np.float16))
    shapes = {
        "attn_q": (WIDTH, WIDTH),
        "attn_k": (per_head, WIDTH),
        "attn_v": (per_head, WIDTH),
        "attn_output": (WIDTH, WIDTH),
        "ffn_gate": (FEED_FORWARD, WIDTH),
        "ffn_up": (FEED_FORWARD, WIDTH),
        "ffn_down": (WIDTH, FEED_FORWARD),
    }
    for name in ("attn_norm", "ffn_norm"):
        writer.add_tensor(f"blk.0.{name}.weight", ones)
    for name, shape in shapes.items():
        writer.add_tensor(f"blk.0.{name}.weight", np.zeros(shape, np.float32))
