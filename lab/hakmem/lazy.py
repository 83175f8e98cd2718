"""Modules that are slow to load and that most commands do not use."""

import importlib
from types import ModuleType
from typing import TYPE_CHECKING, Any


class Module(ModuleType):
    """A stand-in for the module of that name, which it loads when anything in it is first used."""

    def __getattr__(self, name: str) -> Any:
        found = importlib.import_module(self.__name__)
        vars(self).update(vars(found))
        return getattr(found, name)


if TYPE_CHECKING:
    import numpy as np
else:
    np = Module("numpy")

__all__ = ["Module", "np"]
