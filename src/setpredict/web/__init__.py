"""The web page that shows sets taking shape, and the HTTP API behind it."""
