"""The addresses of this app's pages and fragments."""

from __future__ import annotations

from django.urls import URLPattern, URLResolver, include, path

urlpatterns: list[URLPattern | URLResolver] = [path("api/v1/", include("recovery_ops.control.api_urls"))]
