"""The examples in docstrings, the stubs, and the guide's program."""

import ast
import doctest
import importlib
import pathlib
import re

import pytest

import thalweg as tw
from thalweg import _thalweg

PACKAGE = pathlib.Path(tw.__file__).parent


def test_examples_in_docstrings_are_right():
    finder = doctest.DocTestFinder()
    found = finder.find(tw, "thalweg") + finder.find(importlib.import_module("thalweg._compiled"))
    runner = doctest.DocTestRunner()
    for test in found:
        if "numba" not in test.name or importlib.util.find_spec("numba"):
            runner.run(test)
    assert runner.tries > 25 and runner.failures == 0


def members(cls):
    own = {name for name in vars(cls) if not name.startswith("__") or name in SPECIAL}
    return own - {"__doc__"}


SPECIAL = {"__call__", "__enter__", "__exit__", "__getitem__", "__len__", "__array__", "__await__", "__dlpack__",
           "__dlpack_device__", "__cuda_array_interface__", "__cuda_stream__"}


def test_stubs_list_all_items():
    stubs = ast.parse((PACKAGE / "_thalweg.pyi").read_text())
    classes = {node.name: node for node in stubs.body if isinstance(node, ast.ClassDef)}
    for name in vars(_thalweg):
        value = getattr(_thalweg, name)
        if not isinstance(value, type):
            continue
        listed = {node.name for node in classes[name].body if isinstance(node, ast.FunctionDef)}
        if not issubclass(value, BaseException):
            assert members(value) == {n for n in listed if not n.startswith("__") or n in SPECIAL}, name
    names = {node.name for node in stubs.body if hasattr(node, "name")}
    assert set(classes) - set(vars(_thalweg)) == set() and "end_all" in names


def test_program_of_the_guide_runs():
    chapter = pathlib.Path(__file__).parents[3] / "docs" / "guide" / "src" / "python.md"
    if not chapter.exists():
        pytest.skip("the guide is not beside the package")
    pytest.importorskip("numba")
    programs = re.findall(r"```python\n(.*?)```", chapter.read_text(), re.S)
    assert len(programs) >= 3
    scope = {}
    for program in programs:
        exec(compile(program, str(chapter), "exec"), scope)
