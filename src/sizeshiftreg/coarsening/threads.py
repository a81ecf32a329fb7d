"""One BLAS thread: on matrices as small as molecules the default thread pools cost more than they give."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from threadpoolctl import ThreadpoolController


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()  # looks through the loaded libraries once; that takes milliseconds


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Run the block with one thread in every BLAS library; the limit before comes back after it."""
    with _controller().limit(limits=1, user_api="blas"):
        yield
