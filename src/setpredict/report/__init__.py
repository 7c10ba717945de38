"""What a person looks at: figures, tables and the report of a run."""
