"""The laboratory of hakmem: everything that runs, measures and reports on the allocator."""


def __getattr__(name: str) -> str:
    """`__version__`: that of what is installed, which has it from src/base/base.h."""
    if name != "__version__":
        raise AttributeError(name)
    from importlib.metadata import version

    return version("hakmem")
