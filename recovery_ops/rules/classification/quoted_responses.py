"""Reads the status, the codes and the body that an error's text quotes, and the vendor's own sentence in it.

Clients, gateways and frameworks print answers in a few forms. Each form is anchored at the start of the text: a number
somewhere in a sentence is no status.
"""

from __future__ import annotations

import json
import re
from dataclasses import field

from recovery_ops.rules.lazy_dataclass import dataclass
from recovery_ops.rules.lazy_patterns import compiled

_LONGEST_TEXT = 8192
_LONGEST_SENTENCE = 700
_MOST_WRAPPERS = 6

_REASON = (
    r"(?:Bad Request|Unauthorized|Payment Required|Forbidden|Not Found|Method Not Allowed|Request Time-?out|Conflict"
    r"|Gone|Precondition Failed|Payload Too Large|Content Too Large|Unprocessable (?:Entity|Content)|Too Many Requests"
    r"|Internal Server Error|Bad Gateway|Service (?:Temporarily )?Unavailable|Gateway Time-?out|Overloaded)"
)
_S = "(?P<s{}>[1-5][0-9][0-9])"
_FORMS = (
    # openai, anthropic, groq and other clients of Stainless
    r"Error code: {S}(?: - |\Z)",
    # botocore
    r"An error occurred \((?P<code>\w+)\) when calling the \w+ operation(?: \([^()]*\))?: ",
    r"The model returned the following errors: ",
    r"Failed to generate content: ",
    # pydantic-ai, cohere
    r"(?:headers: \{{[^{{}}]{{0,3000}}\}}, )?status_code: {S}(?:, model_name: [^,\n]{{1,200}})?(?:, body: |\Z)",
    # aiohttp
    r"{S}, message=(?=['\"])",
    # Claude Code
    r"API Error: \(?{S}(?: status code \(no body\)| |\Z)",
    # mistralai and other clients of Speakeasy
    r"API error occurred: Status {S}(?: Content-Type \S{{1,60}})?(?:\.|:)?\s?(?:Body: )?",
    # MCP's client for TypeScript
    r"MCP error (?P<rpc>-\d{{4,5}}): ",
    # axios and fetch
    r"(?:The )?[Rr]equest failed with status(?: code)? {S}(?::? |\.|\Z)",
    r"(?:HTTP )?[Ss]tatus(?: code)?:? {S}(?:: |, |\.? |\Z)",
    # httpx, requests, urllib, plain HTTP
    r"(?:Client|Server) error '{S}[^'\n]{{0,60}}' for url [^\n]*",
    r"{S} (?:Client|Server) Error: ",
    r"HTTP Error {S}(?:: |\Z)",
    r"HTTP(?:/[\d.]{{1,3}})? (?:status )?(?:code )?{S}(?:(?: [A-Z][A-Za-z ]{{0,30}})?(?:[:.,] |\Z)|\s(?=\{{))",
    # google-genai for Python and JavaScript, google-generativeai for JavaScript
    r"{S} (?P<word>[A-Z][A-Z_]{{3,40}})\. ",
    r"got status: (?:{S}|(?P<word2>[A-Z][A-Z_]{{3,40}}))(?: [A-Za-z ]{{1,40}})?\. ",
    r"\[GoogleGenerativeAI Error\]: (?:Error fetching from \S{{1,300}}: )?",
    r"\[{S} [A-Za-z -]{{2,40}}\] ",
    # openai for JavaScript, and anything that prints a status line
    r"{S}(?:(?: - |: )|(?: {REASON}(?:: | - |\. |\Z| for |(?=[.,;\n])))|(?: [A-Z][A-Za-z ]{{0,30}}:)? (?=[{{\[]))",
    r"{S}(?: status code)? \(no body\)",
    # pages of nginx, Cloudflare and others
    r"(?s:(?:<!DOCTYPE html[^>]{{0,100}}>\s*)?<html.{{0,400}}?<title>(?:[^<>|]{{0,100}}\| )?{S}(?:: | ))",
    # grpcio
    r"<\w{{1,60}} of RPC that terminated with:\s+status = StatusCode\.(?P<word3>[A-Z_]{{2,40}})\s+details = \"",
    # what stands before the message of a Python or JavaScript exception
    r"(?:[A-Za-z_]\w{{0,60}}\.){{0,6}}(?P<type>[A-Z]?\w{{0,60}}(?:Error|Exception|Timeout))(?:: | - )",
    r"b(?=['\"][\[{{])",
    # openai-agents, which prints what its span says of an error
    r"Error (?:getting response|streaming response|in agent run): (?=(?:Error code: |\{{))",
    r"\{{['\"]error['\"]: ['\"](?=Error code: )",
    # what a program says before it prints the answer
    r"Error raised by \w{{1,30}} service: ",
    r"[A-Za-z][\w./ -]{{0,60}}: (?=Error code: |[Ss]tatus|HTTP|API |An error occurred \()",
    r"[A-Za-z][\w./ -]{{0,60}}: (?=\d{{3}} (?:(?:- )?\{{|{REASON}))",
)


def _alternatives() -> str:
    """The forms as one pattern; a name may stand in a pattern once, so each status has a number."""
    forms = (
        form.format(S=_S.format(number), REASON=_REASON).replace("{{", "{").replace("}}", "}")
        for number, form in enumerate(_FORMS)
    )
    return "|".join(forms)


_WRAPPER = compiled(_alternatives())
_MAY_QUOTE = compiled(r"\d{3}|\{|Error|Exception|StatusCode")
"""Most texts quote nothing, and are told apart at once."""
_AT_THE_END = compiled(r"[^\n]{1,300}?\((?:status|HTTP)(?: code)?:? ([45]\d\d)\)\s*\Z")
_MESSAGE_IN_JSON = compiled(r"""['"]?[\[{].{0,300}?\\*['"]message\\*['"]\s*:\s*\\*['"]""", re.DOTALL)
_ERROR_IN_JSON = compiled(r"""['"]?\{\\*['"]error\\*['"]\s*:\s*\\*['"]""")
"""As LiteLLM's proxy prints what it raises."""


@dataclass(frozen=True, slots=True)
class Quoted:
    """What a text quotes. `words`: codes as they are printed, the outermost first. `rest`: what follows the forms."""

    status: int | None = None
    words: tuple[str, ...] = ()
    body: dict[str, object] | None = None
    rest: str = ""
    is_bare: bool = field(default=True)
    """Whether the text quotes nothing."""


def quoted_in(text: str) -> Quoted:
    """What a text quotes, at a bounded cost; never raises."""
    if _MAY_QUOTE.search(text[:_LONGEST_SENTENCE]) is None:
        return Quoted(rest=text)
    rest, status, words = _peeled(text)
    body = _body_in(rest)
    if status is None and body is None:
        ending = _AT_THE_END.match(text[:400])
        status = int(ending[1]) if ending else None
    is_bare = status is None and body is None and not words
    return Quoted(status, tuple(words), body, rest, is_bare)


def unwrapped(message: str) -> str:
    """The vendor's own sentence, without what client libraries and gateways put in front of it (bounded)."""
    rest, _, _ = _peeled(message)
    inner = _MESSAGE_IN_JSON.match(rest) or _ERROR_IN_JSON.match(rest)
    if inner is not None:
        rest, _, _ = _peeled(rest[inner.end() :])
    return rest[:_LONGEST_SENTENCE]


def _peeled(text: str) -> tuple[str, int | None, list[str]]:
    """The text without the forms at its start, the first status of an error among them, and their codes."""
    rest, status, words = text[:_LONGEST_TEXT].lstrip(), None, []
    for _ in range(_MOST_WRAPPERS):
        form = _WRAPPER.match(rest)
        if form is None or not form.end():
            break
        for name, value in form.groupdict().items():
            if value is None:
                continue
            if name == "rpc":
                words.append(f"jsonrpc_{value}")
            elif not name[1:].isdigit():
                words.append(value)
            elif status is None and int(value) >= 400:
                status = int(value)
        rest = rest[form.end() :].lstrip()
    return rest, status, words


def _body_in(text: str) -> dict[str, object] | None:
    """The JSON object at the start of a text, or a dictionary as Python prints it."""
    start = text[:200].lstrip("b'\" ([")
    if not start.startswith("{"):
        return None
    begin = text.index("{")
    inner = text[begin:]
    try:
        found, _ = json.JSONDecoder().raw_decode(inner)
    except (ValueError, RecursionError):
        found = _literal(inner[: inner.rfind("}") + 1])
    return found if isinstance(found, dict) else None


def _literal(text: str) -> object:
    import ast  # when first needed: an agent in which nothing fails does without

    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
        return None
