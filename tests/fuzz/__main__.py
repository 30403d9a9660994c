"""`python -m tests.fuzz TARGET [libFuzzer's options]`: atheris throws bytes at one target, beginning with good ones."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import atheris  # type: ignore[import-not-found, import-untyped, unused-ignore]  # only where somebody fuzzes

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")

import django

with atheris.instrument_imports(include=["events", "recovery_ops"]):
    django.setup()

    from tests.fuzz.seeds import SEEDS
    from tests.fuzz.targets import TARGETS, WORDS


def main() -> None:
    """Fuzz until libFuzzer's options say that it is enough; a finding ends it with its bytes in a file."""
    name, options = sys.argv[1], sys.argv[2:]
    with tempfile.TemporaryDirectory() as place:
        corpus = Path(place) / "corpus"
        corpus.mkdir()
        for number, seed in enumerate(SEEDS[name]):
            (corpus / str(number)).write_bytes(seed)
        words = Path(place) / "words"
        words.write_text("".join(f'"{word}"\n' for word in WORDS))
        atheris.Setup([sys.argv[0], f"-dict={words}", *options, str(corpus)], TARGETS[name])
        atheris.Fuzz()


if __name__ == "__main__":
    main()
