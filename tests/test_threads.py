"""one_blas_thread in a fresh process, before anything else has loaded a BLAS."""

import subprocess
import sys

PROGRAM = """
import torch, threadpoolctl
from sizeshiftreg.coarsening.spectral import sgc
from sizeshiftreg.coarsening.threads import one_blas_thread
ring = torch.stack([torch.arange(30), torch.arange(30).roll(1)])
with one_blas_thread():
    pass
sgc(ring, 30, 20, generator=torch.Generator())  # loads whatever BLAS the compiled code calls
with one_blas_thread():
    pools = [pool for pool in threadpoolctl.threadpool_info() if pool["user_api"] == "blas"]
assert pools and all(pool["num_threads"] == 1 for pool in pools), pools
assert len(pools) >= 2, "numpy and scipy bring a BLAS each"
"""


def test_every_blas_is_limited_also_one_that_is_loaded_later():
    found = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
