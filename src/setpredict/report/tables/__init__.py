"""Tables, as text and HTML."""
