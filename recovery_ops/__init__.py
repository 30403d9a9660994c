"""Recovery Ops: agents recover by written rules; people watch and steer them from one console."""

__version__ = "0.1.0.dev0"
