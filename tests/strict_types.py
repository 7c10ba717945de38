"""The type checker for all calls in the package during tests: beartype, which accepts an int for a float."""

from beartype import BeartypeConf, beartype

check = beartype(conf=BeartypeConf(is_pep484_tower=True))
