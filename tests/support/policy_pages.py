"""The pages of policies: editing one document as form or JSON, its life as buttons, and the way back."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

NEW = "/policies/proposals/new"


def typed(page: Any) -> dict[str, str]:
    """Every field of the page's last form that posts, with its value: what a browser would send."""
    html = page.content.decode()
    form = html[html.rindex("<form") : html.rindex("</form>")]
    found: dict[str, str] = {}
    for tag in re.findall(r"<input[^>]*>", form):
        said = dict(re.findall(r'(\w+)="([^"]*)"', tag))
        if said.get("type") != "checkbox":
            found[said["name"]] = unescape(said.get("value", ""))
    for name, text in re.findall(r'<textarea[^>]*name="([^"]+)"[^>]*>(.*?)</textarea>', form, re.S):
        found[name] = unescape(text)
    for name, options in re.findall(r'<select[^>]*name="([^"]+)"[^>]*>(.*?)</select>', form, re.S):
        chosen = re.search(r'value="([^"]*)" selected', options) or re.search(r'value="([^"]*)"', options)
        found[name] = unescape(chosen.group(1)) if chosen else ""
    return found
