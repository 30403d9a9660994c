"""Whether two names mean one model: an alias and the dated version that answers for it are no fallback."""

from __future__ import annotations

import re
from functools import lru_cache

_NAMES_ARE_FREE = ("azure", "az.ai")
"""Providers where a request names a deployment, which its owner calls whatever he likes."""
_CHOOSES = re.compile(r"(?:^|[-/_.])(?:auto|router|default|best|latest)$|application-inference-profile|^arn:", re.I)
_VERSION = re.compile(
    r"""(?:
        [-@](?:19|20)\d\d-?\d\d-?\d\d          # 2024-08-06, 20240806
      | -preview(?:-\d\d-(?:\d\d|\d{4}))?      # preview-05-06, preview-09-2025
      | -exp(?:-\d\d-\d\d|-\d{4})?
      | -\d{3,4} | -latest | -stable | -v\d+ | :\d+k? | -0
    )$""",
    re.VERBOSE,
)
_NUMBER = re.compile(r"-\d+(?:\.\d+)*(?=-|$)")
"""Where a name says which one of its family it is: `gemini-2.5-flash`."""
_REGION = re.compile(r"^(?:us|eu|apac|au|jp|ca|global|us-gov)\.(?=[a-z]+\.)")
_VENDOR = re.compile(r"^(?:anthropic|amazon|meta|mistral|cohere|ai21|deepseek|openai|qwen|google|stability)\.(?=[a-z])")


def is_other_model(asked: str, answered: str, provider: str) -> bool:
    """Whether another model answered than the one that was asked. False where the names cannot tell."""
    if not asked or not answered or asked == answered:
        return False
    if provider.lower().startswith(_NAMES_ARE_FREE) or (_CHOOSES.search(asked) and not _is_alias(asked)):
        return False
    base, other = base_name(asked), base_name(answered)
    if asked.lower().endswith("-latest") and not _NUMBER.search(base):
        other = _NUMBER.sub("", other)  # the newest of a family: whatever its number is
    return base != other


def _is_alias(asked: str) -> bool:
    """`claude-3-5-sonnet-latest` names a model; `latest` alone, or a router, names none."""
    return asked.lower().endswith("-latest") and base_name(asked) not in ("", "latest", "chatgpt")


@lru_cache(maxsize=4096)
def base_name(name: str) -> str:
    """The model without vendor, region, date and version: `us.anthropic.claude-x-20250514-v1:0` → `claude-x`."""
    short = name[:200].strip().lower().rpartition("/")[2]
    short = _VENDOR.sub("", _REGION.sub("", short))
    while (cut := _VERSION.sub("", short)) != short and cut:
        short = cut
    return short
