"""The data sets, one per module: each is a function that returns a `SetTask`."""
