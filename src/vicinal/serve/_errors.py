"""What is wrong with a request, in words that name nothing of the machine."""


class RequestError(Exception):
    """A request that cannot be answered: a status of HTTP and one line."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
