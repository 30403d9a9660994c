"""Vendors' exceptions are known by name alone, and what they carry is found wherever the vendor keeps it."""

from __future__ import annotations

from typing import Any


def library(name: str, *bases: type[BaseException], **attributes: object) -> Any:
    """A class that says it is `module.Name` of a library that is not installed here."""
    module, _, short = name.rpartition(".")
    return type(short, bases or (Exception,), {"__module__": module, "__qualname__": short, **attributes})


def caused(error: BaseException, cause: BaseException) -> BaseException:
    error.__cause__ = cause
    return error


RpcError = library("grpc.RpcError")


OpenAiStatusError = library("openai.APIStatusError", library("openai.APIError"))


McpError = library("mcp.shared.exceptions.McpError")


def carrying(cls: Any, /, *args: object, **attributes: object) -> BaseException:
    """An error of this class with these attributes."""
    error: BaseException = cls(*args)
    for name, value in attributes.items():
        setattr(error, name, value)
    return error
