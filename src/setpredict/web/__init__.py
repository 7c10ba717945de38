"""The page on which sets take shape, and the HTTP API behind it."""
