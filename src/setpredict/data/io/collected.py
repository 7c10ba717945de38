"""Several mistakes in a data set, reported together."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from setpredict.core.errors import UserError

MOST = 20


class Collected:
    """Collects different mistakes up to a number, then raises them as one error with one line each.

    >>> found = Collected()
    >>> for i in range(2):
    ...     with found.catching():
    ...         raise UserError(f"line {i} is wrong")
    >>> found.raise_all()
    Traceback (most recent call last):
    setpredict.core.errors.UserError: line 0 is wrong
    line 1 is wrong
    """

    def __init__(self) -> None:
        self.errors: list[UserError] = []

    @contextmanager
    def catching(self) -> Iterator[None]:
        """Remember a UserError instead of raising it, unless there are too many already."""
        try:
            yield
        except UserError as e:
            if str(e) in map(str, self.errors):
                return
            self.errors.append(e)
            if len(self.errors) >= MOST:
                self.errors.append(UserError("… and possibly more"))
                self.raise_all()

    def raise_all(self) -> None:
        """Raise what was collected, if there is anything."""
        if self.errors:
            raise UserError("\n".join(map(str, self.errors))) from self.errors[0]
