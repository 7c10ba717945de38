"""`python -m setpredict.report.doc_tables [--check]`."""

from setpredict.report.doc_tables import main

raise SystemExit(main())
