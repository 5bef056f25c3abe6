"""What is wrong with a request, in words that name nothing of the machine."""


class RequestError(Exception):
    """A request that cannot be answered: a status of HTTP, one line, and when to try again."""

    def __init__(self, status: int, message: str, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.retry_after = retry_after
