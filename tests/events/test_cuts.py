"""Where a long text is cut, nothing of a secret is kept that no pattern knows any more."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from events.ingest.cleaning import KEY_CHARS, VALUE_CHARS, Cleaner
from recovery_ops.rules.policy.masking_rules import Masking, MaskRule

TOKEN = "CUST-0123456789"
SECRETS = {
    TOKEN: "CUST-0",
    "https://ann:hunter2hunter2@example.org": "hunter",
    f'password="{"correct horse " * 30}"': "horse",
    f'; Cookie: prefs="{"battery staple " * 60}"; session=1': "staple",
    f'secret="{"battery staple " * 60}"': "staple",
}
"""Secrets, and what is in them that may not be kept."""


def cleaner(replacement: str) -> Cleaner:
    return Cleaner(Masking(rules=(MaskRule(name="customer", pattern=r"CUST-\d{10}", replacement=replacement),)))


@given(
    secret=st.sampled_from(sorted(SECRETS)),
    replacement=st.sampled_from(["[c]", "[masked]", "[" + "customer" * 6 + "]"]),
    most=st.sampled_from([KEY_CHARS, VALUE_CHARS]),
    tokens=st.integers(0, 400),
    back=st.integers(-200, 900),
    gap=st.sampled_from(["", "\u200b", "\u200b" * 700]),
)
@example(secret=TOKEN, replacement="[c]", most=VALUE_CHARS, tokens=400, back=0, gap="")
def test_a_secret_near_a_cut_is_nowhere(
    secret: str, replacement: str, most: int, tokens: int, back: int, gap: str
) -> None:
    before = ("xx" + f"{TOKEN} " * tokens)[: max(0, most + 700 - back)]
    whole = before[: max(2, len(before) - (len(before) - 2) % len(f"{TOKEN} "))]  # half a token is none by its rule
    planted = whole.ljust(most - back, " ") + secret[:6] + gap + secret[6:] + " "
    kept = cleaner(replacement).text(planted.ljust(most * 2, "y"), most)
    assert SECRETS[secret] not in kept
    assert "CUST-0" not in kept
    assert len(kept) <= most


@given(tokens=st.integers(20, 400), most=st.sampled_from([KEY_CHARS, VALUE_CHARS]), ahead=st.integers(0, 16))
def test_masks_that_are_shorter_pull_nothing_in(tokens: int, most: int, ahead: int) -> None:
    assert "CUST-0" not in cleaner("[c]").text("x" * ahead + f"{TOKEN} " * tokens, most)


def test_a_name_is_cut_like_a_value() -> None:
    assert "CUST-0" not in cleaner("[c]").pair("xx" + f"{TOKEN} " * 40, 1)[0]


def test_what_is_no_secret_is_kept_up_to_the_cut() -> None:
    assert cleaner("[c]").text("word " * 2000) == ("word " * 2000)[: VALUE_CHARS - 1] + "…"
