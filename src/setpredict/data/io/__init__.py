"""Reading and caching files."""
