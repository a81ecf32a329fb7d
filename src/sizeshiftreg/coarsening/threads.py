"""One thread: on matrices as small as molecules the default thread pools cost more than they give."""

import importlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch
from threadpoolctl import ThreadpoolController

_lock = threading.Lock()
_inside = 0
_limit: Any = None


@cache
def _controller() -> ThreadpoolController:
    # It looks once through the libraries that are loaded. Compiled code calls scipy's BLAS, which is not numpy's and is
    # loaded only when first used: import it before looking.
    importlib.import_module("scipy.linalg.cython_blas")
    return ThreadpoolController()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Run the block with one thread in every BLAS library; the limit before comes back after it.

    The limit holds for the whole process, so of blocks that overlap in several threads the first sets it and the last
    takes it back.
    """
    global _inside, _limit  # noqa: PLW0603 (what it counts is a property of the process)
    with _lock:
        if _inside == 0:
            _limit = _controller().limit(limits=1, user_api="blas")
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if _inside == 0 and _limit is not None:
                _limit.restore_original_limits()
                _limit = None


@contextmanager
def one_thread() -> Iterator[None]:
    """Run the block with one thread in torch, too: sums then have one order, and small tensors are faster."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with one_blas_thread():
            yield
    finally:
        torch.set_num_threads(before)
