"""Thalweg: a dataflow task-graph runtime.

A program submits tasks and declares the regions of arrays that each task reads, writes or updates. The runtime
determines the order and runs tasks that do not depend on each other at the same time.

>>> import numpy as np, thalweg as tw
>>> with tw.Runtime("2:CPU:1") as rt:
...     x = rt.data(np.ones(1_000_000))              # adopts the array, no copy
...     for part in x.blocks(4096):
...         task = rt.task(part.inout())(lambda x: np.multiply(x, 2, out=x))
...     print(x.read().sum())
2000000.0
"""

import atexit as _atexit

from ._compiled import BODY, VIEW, numba_body
from ._thalweg import (
    Access,
    Compiled,
    Data,
    DeviceArray,
    Error,
    Group,
    Kernel,
    Launch,
    LoopBuilder,
    Refused,
    Runtime,
    Space,
    Statistics,
    Stream,
    Task,
    TaskBuilder,
    TaskError,
    nth,
    end_all as _end_all,
)

__all__ = [
    "Access",
    "BODY",
    "Compiled",
    "Data",
    "DeviceArray",
    "Error",
    "Group",
    "Kernel",
    "Launch",
    "LoopBuilder",
    "Refused",
    "Runtime",
    "Space",
    "Statistics",
    "Stream",
    "Task",
    "TaskBuilder",
    "TaskError",
    "VIEW",
    "nth",
    "numba_body",
]

_atexit.register(_end_all)
