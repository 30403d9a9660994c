"""The post-mortem of a question: a page to read and print, and its files, Markdown and JSON."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils import timezone

from events.pages.rendering import render_page
from events.pages.table_files import JSON, MARKDOWN, is_asked, json_answer, markdown_answer
from recovery_ops.control.escalations.post_mortems import PostMortem, post_mortem_of
from recovery_ops.control.escalations.selectors import queue
from recovery_ops.control.escalations.views.responding import missing


def post_mortem(request: HttpRequest, *, environment: str, number: int) -> HttpResponse:
    """The post-mortem of a question: the page, or its file. What was merged is told by the whole."""
    now = timezone.now()
    found = queue.find_with_story(environment, number)
    if found is None:
        raise missing(environment, number)
    one, story, _ = found
    if one.merged_into_id is not None:
        whole, query = reverse("escalation-post-mortem", args=[one.merged_into_id]), request.GET.urlencode()
        return redirect(f"{whole}?{query}" if query else whole)
    told = post_mortem_of(one, story, now)
    if is_asked(request, MARKDOWN, JSON):
        return file_answer(request, told)
    return render_page(request, "escalations/post_mortem", {"now": now, "one": one, "told": told})


def file_answer(request: HttpRequest, told: PostMortem) -> HttpResponse:
    """Markdown, or the same as JSON where `format=json` asks for it."""
    name = f"post-mortem {told.row.one}"
    if is_asked(request, JSON):
        return json_answer(request, name, told.document())
    return markdown_answer(request, name, told.title, told.lines, told.tables)
