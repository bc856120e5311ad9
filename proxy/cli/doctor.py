"""`vllm-tool-proxy doctor`: probe a live model server, and report each defect and its fix."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
from pathlib import Path

from proxy.cli.output import report, say, show
from proxy.config.load import environment, key_in_variable, load, read_keys, user_rules, working_folder
from proxy.config.rules import Rules
from proxy.display import escaped
from proxy.doctor.asking import Asker
from proxy.doctor.examination import NoModelError, NoServerError
from proxy.doctor.probes import PROBES
from proxy.doctor.report import Report, examine, lines
from proxy.doctor.report import as_json as report_json
from proxy.doctor.rule import rules_in, write_entry
from proxy.errors import RulesError
from proxy.upstream.client import ModelServer, ServerOptions

HARM, NO_SERVER = 1, 3
_BUDGET_SECONDS = 300.0
_CONNECT_SECONDS = 5.0


def doctor_command(
    *,
    upstream: str | None,
    model: str,
    as_json: bool,
    write: str | None,
    key_env: str | None,
    timeout: float,
    rules: str | None,
) -> int:
    """Run `doctor` and return its exit status. Raises RulesError."""
    env = environment()
    settings, loaded = load({"upstream": upstream, "rules": rules}, env)
    if key_env:
        key = key_in_variable(key_env, f"--key-env {key_env}", env)
    else:
        key = read_keys(settings, loaded, env).upstream
    target = None if write is None else _target(write, loaded, env)
    if target is not None:
        loaded = rules_in(target)
    options = ServerOptions(settings.upstream, min(timeout, _CONNECT_SECONDS), timeout, settings.upstream_ca)
    key_from = key_env or ("the file of upstream_key_file" if key else "")
    ask = Asker(ModelServer(options), key, timeout, _BUDGET_SECONDS, key_from)
    steps = itertools.count(1)
    try:
        found = examine(ask, model, loaded, lambda title: report(f"doctor: {next(steps)}/{len(PROBES)} {title}"))
    except NoModelError as error:
        raise RulesError(str(error)) from None
    except NoServerError as error:
        say("error", str(error))
        return NO_SERVER
    notes = [] if target is None else _written(target, found)
    if as_json:
        show([json.dumps(report_json(found), indent=2)])
        for note in notes:
            report(note)
    else:
        # Escaped: a line break in a model's name must not start a line.
        show(escaped(line) for line in (*lines(found), *notes))
    return HARM if found.does_harm else 0


def _target(write: str, rules: Rules, env: dict[str, str]) -> Path:
    """Return the rules file to write: the one named by `--write`, the one in force, or the user's own.

    Creates the folder of the user's file. Raises RulesError if there is no file that can be written.
    """
    own = user_rules(env)
    if write:
        target = working_folder(env) / write
    elif os.path.isabs(rules.source):
        target = Path(rules.source)
    elif own is None:
        raise RulesError("--write: no rules file is in force, and HOME is not set; name a file")
    else:
        target = own
        with contextlib.suppress(OSError):
            own.parent.mkdir(parents=True, exist_ok=True)
    place = Path(os.path.realpath(target))
    if not os.access(place.parent, os.W_OK):
        raise RulesError(f"{place}: the folder is missing or cannot be written; create it, or name another file")
    return target


def _written(file: Path, report: Report) -> list[str]:
    """Add the entry to the file; return notes on what was done."""
    if not report.entry:
        return [f"nothing was written: {file} needs no further entry for this model"]
    written = write_entry(file, report.examination.model, report.entry)
    backup = "it is new" if written.backup is None else f"backup: {written.backup}"
    notes = [f"written: {written.file} ({backup}); reload the proxy to apply it (POST /_reload, or SIGHUP)"]
    if written.infers_anew:
        notes.append(
            "the file had no section models; now that it has one, a call without a name is only read if the schemas of "
            "the offered tools identify its tool"
        )
    return notes
