"""Modules that are slow to load and that most commands never use."""

import importlib
from types import ModuleType
from typing import TYPE_CHECKING, Any


class Module(ModuleType):
    """Stands for the module of that name, and loads it at the first use of anything in it."""

    def __getattr__(self, name: str) -> Any:
        found = importlib.import_module(self.__name__)
        vars(self).update(vars(found))
        return getattr(found, name)


if TYPE_CHECKING:
    import numpy as np
else:
    np = Module("numpy")

__all__ = ["Module", "np"]
