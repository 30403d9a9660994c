"""What an integration says where its package is not installed."""

from __future__ import annotations


def missing(module: str, package: str, error: ModuleNotFoundError, *, root: str = "") -> ModuleNotFoundError:
    """The error to raise instead: it names the integration and what to install. `root` is what is imported of it."""
    if error.name is not None and error.name.partition(".")[0] != (root or package):
        return error  # the package is there, and lacks one of its own
    return ModuleNotFoundError(f"{module} needs {package}: pip install {package}", name=error.name)
