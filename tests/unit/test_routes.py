"""The conf reader: what it accepts and what it refuses, by line number."""

from __future__ import annotations

from pathlib import Path

import pytest

from torch_fl._routes import read_routes


def conf(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "backends.conf"
    path.write_text(text)
    return path


def test_routes_comments_and_blank_lines(tmp_path: Path) -> None:
    path = conf(tmp_path, "# routes\n\nadd.Tensor = kunlunxin  # native\nfill_.Scalar=none\n")
    assert read_routes(path) == {"add.Tensor": "kunlunxin", "fill_.Scalar": "none"}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("add.Tensor\n", r":1: 'add.Tensor' is not a route"),
        ("\nadd.Tensor = cuda\n", r":2: add.Tensor is routed to 'cuda'; the backends are kunlunxin, none"),
        ("relu = none\nrelu = kunlunxin\n", r":2: relu has a route already"),
        ("= none\n", r":1: '= none' is not a route"),
    ],
)
def test_bad_lines_are_refused_by_number(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        read_routes(conf(tmp_path, text))
