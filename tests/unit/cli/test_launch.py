"""A proxy next to an agent: where one can be started. The rest needs processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from proxy.cli.main import main
from tests.support.bare import make_bare


@pytest.mark.parametrize(
    "url",
    [
        "https://127.0.0.1:8003",
        "http://10.0.0.1:8003",
        "http://localhost.evil:1",
        "http://127.0.0.1/a",
        "http://[::2]:1",
    ],
)
def test_no_proxy_is_started_on_another_machine(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    make_bare(tmp_path, monkeypatch)
    before = {*tmp_path.rglob("*")}
    assert main(["launch", "pi", "--url", url, "--upstream", "http://gpu:8000"]) == 2
    err = capsys.readouterr().err
    assert f"but {url} is on another one" in err and err.count("\n") == 1
    assert {*tmp_path.rglob("*")} == before
