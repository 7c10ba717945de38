"""The OpenAPI document, tested by schemathesis: what it allows is answered, what it forbids is rejected."""

import os
import shutil
import subprocess
import sys

import pytest

from setpredict.web.catalog import Served
from tests.web.served import Running

pytestmark = pytest.mark.web


def test_nothing_that_the_document_allows_is_a_server_error(models: dict[str, Served], tmp_path):
    tool = shutil.which("schemathesis", path=os.path.dirname(sys.executable))
    if not tool:
        pytest.skip("schemathesis is not installed; make test-web installs it")
    minutes = float(os.environ.get("SETPREDICT_SCHEMATHESIS_MINUTES", "1"))
    checks = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"
    with Running(models) as address:
        done = subprocess.run(
            [tool, "run", f"{address}/openapi.json", "--checks", checks, "--phases", "examples,coverage,fuzzing",
             "--max-examples", str(int(300 * minutes)), "--seed", "1", "--max-failures", "5"],
            cwd=tmp_path, capture_output=True, text=True, timeout=60 * minutes + 540,
        )  # fmt: skip
    assert done.returncode == 0, "\n".join(line[:300] for line in done.stdout.splitlines()[-80:])
    assert "404 Not Found" not in done.stdout, "the models themselves were hardly reached"
