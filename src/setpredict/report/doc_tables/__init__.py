"""The generated tables of the documentation: options, public names, and measurements from files.

`python -m setpredict.report.doc_tables` rewrites them in all pages; `--check` fails if a page is out of date.
"""

from setpredict.report.doc_tables.names import public_names_table, signature
from setpredict.report.doc_tables.options import option_table
from setpredict.report.doc_tables.pages import TABLES, main, update, updated

__all__ = ["TABLES", "main", "option_table", "public_names_table", "signature", "update", "updated"]
