"""The one exception for mistakes of the user, so that a bug of ours is never mistaken for one."""

from __future__ import annotations


class UserError(ValueError):
    """Something that the user can put right: an option, a file, a data set. The message is one line that names the
    thing, its value and what was expected; the command line prints it without a traceback."""


class NotFinite(UserError):
    """A NaN or an infinity where a number was needed; the message names the place."""
