"""Takes secrets and invisible characters out of text before it leaves the process.

`masked` would rather hide a harmless word than let a key pass. All functions are for bounded text (a few kB): cut a
foreign body before it comes here.
"""

from __future__ import annotations

import re

from recovery_ops.rules.lazy_patterns import compiled

MASK = "[masked]"

# Control characters, bidi overrides, zero-width characters and lone surrogates: they hide secrets from patterns, turn
# text around on a screen, or cannot be encoded at all. Line breaks and tabs stay until `printable`.
_INVISIBLE = compiled(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)
_BREAKS = compiled(r"[\t\n\r\u2028\u2029]+")

_PRIVATE_KEY = compiled(
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY[^-]{0,20}-----.*?(?:-----END [^-]{0,60}-----|\Z)", re.DOTALL
)

# The value of a header goes up to the end of its line or of its quotes; quotes after "=" are part of it (Digest,
# cookies), also escaped ones, and ones that nobody closes: the end of the text may be where somebody cut it.
_HEADER = compiled(
    r"""\b((?:proxy-)?authorization|(?:set-)?cookie|x-api-key|api-key|x-goog-api-key|x-auth-token|x-amz-security-token)
    (\\*['"]?\s*[:=,]\s*(?:b(?=['"]))?\\*['"]?)(?:(?<==)\\*"[^"\r\n]*"?|[^'"\r\n])+""",
    re.IGNORECASE | re.VERBOSE,
)
# "Bearer authentication" and "Basic Auth" are prose.
_SCHEME = compiled(
    r"""\b((?i:bearer)\s+)(?!(?:token|auth\w*|scheme|realm|credentials?|header)\b)[\w.~+/=-]{6,}
    |\b((?i:basic)\s+)(?=[\w+/=]+[A-Z0-9+/=])[\w+/=]{8,}""",
    re.VERBOSE,
)
_KEY = compiled(
    r"""(?<![A-Za-z0-9])(?:
      (?:sk|pk|rk|ro)[-_][A-Za-z0-9_-]{8,}                            # OpenAI, Anthropic, Stripe, our own
    | (?:AKIA|ASIA|ABIA|ACCA|AROA|AIDA)[A-Z0-9]{12,}                  # AWS
    | (?:gh[pousr]|github_pat|glpat|hf|xai|gsk|npm|pypi|dop_v1|shpat|whsec)[-_][A-Za-z0-9_-]{10,}
    | xox[a-z]-[A-Za-z0-9-]{8,} | xapp-[A-Za-z0-9-]{8,}               # Slack
    | hooks\.slack\.com/(?:services|workflows|triggers)/[A-Za-z0-9/_-]+
    | AIza[A-Za-z0-9_-]{16,} | ya29\.[A-Za-z0-9_-]{10,}               # Google
    | SG\.[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}                      # SendGrid
    | hv[bsr]\.[A-Za-z0-9_-]{16,}                                     # Vault
    | (?:bot)?[0-9]{6,12}:AA[A-Za-z0-9_-]{24,}                        # Telegram
    | AGE-SECRET-KEY-1[A-Z0-9]{16,}
    | (?<![_-])eyJ[A-Za-z0-9_-]{5,}(?:\.[A-Za-z0-9_-]{5,}){1,4}       # JSON web tokens
    )""",
    re.VERBOSE,
)
_USERINFO = compiled(r"""(?<=://)[^\s/'"<>]{1,512}@""")
_PAIR = compiled(
    r"""((?:password|passwort|passwd|passphrase|secret|token(?!s)|credential|api[ _-]?key(?:\ provided)?|access[_-]?key
        |private[_-]?key|account[_-]?key|signature|session[_-]?id|(?<![a-z])(?:pwd|sig|key|auth))s?
      (?:\\*['"]?\s*(?:=>|[:=])\s*|>(?=[^\s<>])))
      (?:\\*"(?:[^"]{1,512}"|[^"\r\n]+"?)|\\*'(?:[^']{1,512}'|[^'\r\n]+'?)|[^\s,;&|<>()\[\]{}'"]+)""",
    re.IGNORECASE | re.VERBOSE,
)
# `--password secret`, `curl -u name:secret`: what a command line says, which errors of processes repeat.
_OPTION = compiled(
    r"""((?<!\S)--(?:[a-z0-9]{1,20}-){0,3}(?:password|passwd|passphrase|secret|token|api-?key|access-?key)\s+
      |(?<!\S)(?:-u|--user)[\s=]+[^\s:'"]{1,64}:)
      (?!-)[^\s'"]+""",
    re.IGNORECASE | re.VERBOSE,
)

# What must be in the (lower-cased) text for a pattern to be worth running: most messages pay for these looks alone.
_HEADER_WORDS = ("authorization", "cookie", "api-key", "auth-token", "security-token")
_KEY_STARTS = (
    *("sk-", "sk_", "pk-", "pk_", "rk-", "rk_", "ro-", "ro_", "akia", "asia", "abia", "acca", "aroa", "aida", "xox"),
    *("ghp", "gho", "ghu", "ghs", "ghr", "github_pat", "glpat", "hf_", "xai-", "gsk_", "npm_", "pypi-", "dop_v1"),
    *("shpat", "whsec", "xapp", "aiza", "ya29", "eyj", "hooks.slack.com/", "sg.", "hvs.", "hvb.", "hvr.", ":aa"),
    "age-secret-key",
)
_OPTION_STARTS = ("--", "-u")
_PAIR_WORDS = ("pass", "pwd", "secret", "token", "credential", "key", "sig", "session", "auth")


def masked(text: str) -> str:
    """The text with every secret replaced by `[masked]`, and without invisible characters."""
    if not text.isprintable():
        text = _INVISIBLE.sub("", text)
    lower = text.lower()
    if "-----begin" in lower:
        text = _PRIVATE_KEY.sub(MASK, text)
    if _has(lower, _HEADER_WORDS):
        text = _HEADER.sub(rf"\1\2{MASK}", text)
    if "bearer" in lower or "basic" in lower:
        text = _SCHEME.sub(lambda found: f"{found[1] or found[2]}{MASK}", text)
    if _has(lower, _KEY_STARTS):
        text = _KEY.sub(MASK, text)
    if "://" in lower:
        text = _USERINFO.sub(f"{MASK}@", text)
    if _has(lower, _OPTION_STARTS):
        text = _OPTION.sub(rf"\1{MASK}", text)
    return _PAIR.sub(rf"\1{MASK}", text) if _has(lower, _PAIR_WORDS) else text


def visible(text: str) -> str:
    """The text without invisible characters; line breaks and tabs stay."""
    return text if text.isprintable() else _INVISIBLE.sub("", text)


def blotted(text: str) -> str:
    """The text with every secret replaced by as many asterisks, and otherwise unchanged: as long as it was."""
    for pattern in (_PRIVATE_KEY, _HEADER, _SCHEME, _KEY, _USERINFO, _OPTION, _PAIR):
        text = pattern.sub(_blot, text)
    return text


def _blot(found: re.Match[str]) -> str:
    """Everything behind the groups, which are what names the secret; an address keeps its `@`."""
    named = "".join(part for part in found.groups() if part)
    tail = "@" if found.re is _USERINFO else ""
    return f"{named}{'*' * (len(found[0]) - len(named) - len(tail))}{tail}"


def _has(text: str, words: tuple[str, ...]) -> bool:
    for word in words:  # noqa: SIM110 - a generator would cost more than all the looks together
        if word in text:
            return True
    return False


def printable(text: str, limit: int) -> str:
    """One line of visible text, cut to `limit` characters with an ellipsis."""
    line = _BREAKS.sub(" ", _INVISIBLE.sub("", text[: limit * 2 + 64])).strip()
    return line if len(line) <= limit else line[: max(0, limit - 1)].rstrip() + "…"
