"""`vllm-tool-proxy key add`: a new client key, shown once."""

from __future__ import annotations

import json
import os
import re
import secrets
import sys
from pathlib import Path

from proxy.cli.output import CommandError, Status, reported, say
from proxy.config.api_keys import digest_of, parse_clients
from proxy.config.load import environment, load, read_file, working_folder
from proxy.config.yaml_nodes import compose, is_null
from proxy.errors import RulesError


def add_command(*, name: str, file: str | None, rules: str | None) -> None:
    """Run `key add`: print the key on standard output, all else on standard error. Raises RulesError, CommandError."""
    env = environment()
    if file is None:
        settings, _ = load({"rules": rules}, env)
        file = settings.client_keys
    if not file:
        raise RulesError("no file of client keys is set; pass --file FILE, or set client_keys in the rules file")
    path = Path(os.path.realpath(working_folder(env) / file))
    before = read_file(path) if os.path.lexists(path) else b""
    if sys.stdout is None:
        raise CommandError(Status.NOT_WRITTEN, "standard output is closed, so a key cannot be shown; open it")
    root = compose(before, str(path))
    keys = () if root is None or is_null(root) else parse_clients(before, str(path))
    if name in [key.name for key in keys]:
        raise RulesError(f"{path}: there is a key named {name}; choose another name, or remove its entry to replace it")
    key = secrets.token_hex(32)
    entry = f"- {{name: {json.dumps(name)}, sha256: {json.dumps(digest_of(key.encode()))}}}\n".encode()
    parse_clients(entry, "NAME")
    indent = re.search(rb"^( *)- ", before, re.MULTILINE)
    gap = b"\n" if before and not before.endswith(b"\n") else b""
    added_text = gap + (indent[1] if indent else b"") + entry
    try:
        added = parse_clients(before + added_text, str(path))
    except RulesError:
        added = ()
    if [each.name for each in added] != [*(each.name for each in keys), name]:
        message = f"{path}: no entry can be added to this form of list; write one `- {{name: …, sha256: …}}` per line"
        raise CommandError(Status.NOT_WRITTEN, message)
    with reported(path, "written"):
        # Appended in place: the file keeps its owner, so the service can still read it.
        output = os.fdopen(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), "wb")
    with output:
        # Print the key before storing it: a key that was never shown is useless.
        print(key, flush=True)
        try:
            output.write(added_text)
            output.flush()
        except OSError as error:
            message = f"{path} cannot be written ({error.strerror}); the key that was printed is not valid"
            raise CommandError(Status.NOT_WRITTEN, message) from error
    say("note", f"added {name} to {path}; the key is not stored, so save it now; reload the proxy to accept it")
