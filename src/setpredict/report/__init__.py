"""What people look at: figures, tables, and the report of a run."""
