"""One BLAS thread: on matrices as small as molecules the default thread pools cost more than they give."""

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from threadpoolctl import ThreadpoolController


@cache
def _controller() -> ThreadpoolController:
    # It looks once through the libraries that are loaded. Compiled code calls scipy's BLAS, which is not numpy's and is
    # loaded only when first used: import it before looking.
    importlib.import_module("scipy.linalg.cython_blas")
    return ThreadpoolController()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Run the block with one thread in every BLAS library; the limit before comes back after it."""
    with _controller().limit(limits=1, user_api="blas"):
        yield
