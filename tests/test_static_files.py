"""Static files of a checkout that was never collected: compressed once, and never stale."""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterator
from pathlib import Path

import brotli  # type: ignore[import-untyped]  # it ships no types
import pytest
from django.test import Client, override_settings

from recovery_ops.server.static_files import compressed_forms

STYLES = "/static/app.css"


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    """A browser at a server whose data directory is its own."""
    with override_settings(DATA_DIR=tmp_path, EMBEDDED=True, WHITENOISE_USE_FINDERS=True):
        yield Client()


def body(client: Client, path: str, encoding: str) -> tuple[dict[str, str], bytes]:
    answer = client.get(path, headers={"accept-encoding": encoding})
    return dict(answer.headers), b"".join(answer.streaming_content)  # type: ignore[attr-defined]  # files are streamed


@pytest.mark.parametrize("path", [STYLES, "/static/plotly/plotly.min.js"])
def test_a_file_travels_as_what_the_browser_takes(client: Client, path: str) -> None:
    headers, plain = body(client, path, "identity")
    for encoding, unpack in (("br", brotli.decompress), ("gzip", gzip.decompress)):
        headers, packed = body(client, path, f"deflate, {encoding}")
        assert (headers["Content-Encoding"], headers["Content-Length"]) == (encoding, str(len(packed)))
        assert "Accept-Encoding" in headers["Vary"]
        assert unpack(packed) == plain
        assert len(packed) < len(plain) / 3
    assert client.get(path, headers={"if-none-match": headers["ETag"]}).status_code == 304


def test_plotly_keeps_within_what_a_page_with_charts_may_weigh(client: Client) -> None:
    assert len(body(client, "/static/plotly/plotly.min.js", "br")[1]) <= 1_300_000


def test_a_file_that_changed_is_compressed_anew(tmp_path: Path) -> None:
    path = tmp_path / "a.css"
    path.write_text("a { color: red }\n" * 100)
    first = compressed_forms(path, tmp_path)
    path.write_text("b { color: red }\n" * 100)
    os.utime(path, ns=(1, 1))
    second = compressed_forms(path, tmp_path)
    assert gzip.decompress(second["gzip"].read_bytes()) == path.read_bytes()
    assert first["gzip"] != second["gzip"]


def test_what_is_compressed_already_is_not_compressed_again(tmp_path: Path) -> None:
    path = tmp_path / "a.css"
    path.write_text("a { color: red }\n" * 100)
    made = {form: form.stat().st_ino for form in compressed_forms(path, tmp_path).values()}
    assert {form: form.stat().st_ino for form in compressed_forms(path, tmp_path).values()} == made


@pytest.mark.parametrize("name", ["tiny.css", "picture.png"])
def test_what_would_not_gain_is_left_alone(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(b"x" * (20 if name == "tiny.css" else 2000))
    assert compressed_forms(path, tmp_path) == {}


def test_without_a_place_to_keep_them_files_are_served_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "a.css"
    path.write_text("a { color: red }\n" * 100)
    assert compressed_forms(path, tmp_path / "nowhere") == {}
