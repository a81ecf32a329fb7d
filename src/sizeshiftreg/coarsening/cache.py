"""PartitionCache: partitions by the content of the graph, in one file that several processes may share."""

import hashlib
import os
import sqlite3
import threading
import warnings
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

# Its usual name, in the folder of the data sets.
CACHE_FILE = "partitions.sqlite"
# Marks a SQLite file as ours ("SzSh").
_APPLICATION_ID = 0x537A5368
_BUSY_SECONDS = 60.0


class PartitionCache:
    """Keep partitions in a SQLite file, each with a checksum.

    An entry that is damaged is noticed, told by a warning and computed again. A file that cannot be used (it is no
    such cache, or cannot be written) is told by a warning and left alone; partitions are then computed each time. An
    entry is there as soon as it is stored, whatever happens to the process after.

    Args:
        path: The file, made when it is missing.

    Attributes:
        hits: How many partitions were found in it.

    Example:
        >>> import tempfile
        >>> cache = PartitionCache(Path(tempfile.mkdtemp()) / "partitions.sqlite")
        >>> cache.put(b"a key", torch.tensor([0, 0, 1]))
        >>> cache.get(b"a key", 3, 2), cache.get(b"another", 3, 2)
        (tensor([0, 0, 1]), None)
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.hits = 0
        self._lock = threading.Lock()
        self._process = 0
        self._connection: sqlite3.Connection | None = None

    def get(self, key: bytes, num_nodes: int, num_clusters: int) -> Tensor | None:
        """Return the partition stored under a key; None where there is none that can be used."""
        found = self._run("SELECT labels, checksum FROM partitions WHERE key = ?", key)
        if not found:
            return None
        stored, checksum = found[0]
        whole = isinstance(stored, bytes) and checksum == _checksum(key, stored)
        if whole and len(stored) == 4 * num_nodes:
            labels = torch.from_numpy(np.frombuffer(stored, dtype="<i4").astype(np.int64))
            if int(labels.min()) >= 0 and int(labels.max()) < num_clusters:
                with self._lock:
                    self.hits += 1
                return labels
        warnings.warn(f"{self.path}: an entry is damaged; the partition is computed again", RuntimeWarning, 2)
        return None

    def put(self, key: bytes, labels: Tensor) -> None:
        """Store a partition under a key, in the place of what was there."""
        stored = labels.numpy().astype("<i4").tobytes()
        self._run("INSERT OR REPLACE INTO partitions VALUES (?, ?, ?)", key, stored, _checksum(key, stored))

    def _run(self, statement: str, *values: bytes) -> list[tuple[bytes, bytes]]:
        with self._lock:
            try:
                connection = self._connect()
                return connection.execute(statement, values).fetchall() if connection else []
            except (sqlite3.Error, OSError) as error:
                self._give_up(str(error))
                return []

    def _connect(self) -> sqlite3.Connection | None:
        if self._process != os.getpid():  # a connection must not cross a fork
            self._process = os.getpid()
            self.path.parent.mkdir(parents=True, exist_ok=True)
            connection = sqlite3.connect(
                self.path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
            )
            if not _is_ours(connection):
                connection.close()
                self._give_up("it is no cache of partitions")
                return None
            # Without a wait for the disk: a power cut may then damage entries, which the checksums notice.
            connection.execute("PRAGMA synchronous = OFF")
            self._connection = connection
        return self._connection

    def _give_up(self, reason: str) -> None:
        self._connection = None
        warnings.warn(
            f"{self.path} cannot be used as a cache of partitions ({reason}); they are computed without it. Delete the "
            "file, or name another",
            RuntimeWarning,
            stacklevel=2,
        )

    def __reduce__(self) -> tuple[type, tuple[Path]]:
        """A copy, in another process or here, has a connection of its own."""
        return PartitionCache, (self.path,)


def partition_key(method: str, version: int, seed: int, edge_index: Tensor, num_nodes: int, num_clusters: int) -> bytes:
    """Return a hash of all that decides a partition."""
    digest = hashlib.blake2b(f"{method} {version} {seed} {num_nodes} {num_clusters} ".encode(), digest_size=16)
    digest.update(edge_index.long().contiguous().numpy().tobytes())
    return digest.digest()


def _checksum(key: bytes, stored: bytes) -> bytes:
    return hashlib.blake2b(key + stored, digest_size=8).digest()


def _is_ours(connection: sqlite3.Connection) -> bool:
    """Return whether the file is a cache of partitions; an empty file becomes one."""
    connection.execute("BEGIN IMMEDIATE")  # of two processes that open an empty file, one makes the table
    try:
        (identity,) = connection.execute("PRAGMA application_id").fetchone()
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if identity == 0 and tables == 0:
            connection.execute(
                "CREATE TABLE partitions (key BLOB PRIMARY KEY, labels BLOB NOT NULL, checksum BLOB NOT NULL) "
                "WITHOUT ROWID"
            )
            connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
            identity = _APPLICATION_ID
    finally:
        connection.execute("COMMIT")
    return bool(identity == _APPLICATION_ID)
