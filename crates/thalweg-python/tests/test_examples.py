"""The examples, each of which compares its result with the plain version."""

import pathlib
import subprocess
import sys

import pytest

EXAMPLES = sorted((pathlib.Path(__file__).parents[1] / "examples").glob("*.py"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.stem)
def test_example_is_verified(example):
    if example.stem == "cholesky":
        pytest.importorskip("scipy")
    ran = subprocess.run([sys.executable, "-X", "dev", example], capture_output=True, text=True, timeout=100)
    assert ran.stdout.endswith("VERIFIED\n"), ran.stderr
