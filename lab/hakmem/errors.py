"""The one exception the commands turn into a message: what is wrong and what to do next."""


class LabError(Exception):
    """A failure the user can act on; `status` becomes the exit status of the command."""

    def __init__(self, message: str, status: int = 2) -> None:
        super().__init__(message)
        self.status = status
