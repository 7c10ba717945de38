"""File formats (IDX, JSON, jsonl, images), caches and downloads."""
