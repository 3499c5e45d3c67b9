"""Where models that were pickled before `_models.online` existed look for their stream."""

from marginout._models.online.stream import Stream

__all__ = ["Stream"]
