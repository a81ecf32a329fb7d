"""ResultStore: one small file per finished run, written atomically, named by the experiment's id."""

import json
import os
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from sizeshiftreg.errors import InputError
from sizeshiftreg.experiment import Experiment, Row


class ResultStore:
    """A folder of rows that several processes may use at once.

    `ID.json` is the row of a finished run and exists only once it is whole. `failed/ID.json` tells of a run that
    failed; it does not count as a result. `.locks/` holds a lock for every run under way, which the operating system
    opens when its process ends, however it ends.

    Example:
        >>> import tempfile
        >>> store = ResultStore(tempfile.mkdtemp())
        >>> experiment = Experiment(dataset="toy_density")
        >>> store.get(experiment) is None
        True
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)

    def check_writable(self) -> None:
        """Make the folder and try it, so that a mistake shows before anything is computed.

        Raises:
            InputError: It cannot be written to.
        """
        try:
            for part in (self.folder, self.folder / "failed", self.folder / ".locks"):
                part.mkdir(parents=True, exist_ok=True)
                probe = part / f".probe-{os.getpid()}"
                probe.write_text("")
                probe.unlink()
        except OSError as error:
            raise InputError(
                f"cannot write to the results folder {self.folder}: {error}. Name another one (--results)"
            ) from error

    def get(self, experiment: Experiment) -> Row | None:
        """Return the row of a finished run, or None."""
        row = self._read(self._file(experiment))
        if row is None:
            return None
        expected = asdict(experiment) | {"ratios": list(experiment.ratios)}
        other = {name: row[name] for name, value in expected.items() if name in row and row[name] != value}
        if other:
            raise InputError(
                f"{self._file(experiment)} is the row of another experiment: it has {other}. It was made by another "
                "version of this package, or changed by hand; move it away and the run is made again"
            )
        return row

    def put(self, row: Row) -> None:
        """Store a row: a finished run for good, a failed one as a note."""
        self.check_writable()
        name = f"{row['id']}.json"
        failed = self.folder / "failed" / name
        if row["status"] != "ok":
            self._write(failed, row)
            return
        self._write(self.folder / name, row)
        failed.unlink(missing_ok=True)

    def rows(self) -> list[Row]:
        """Return the rows of all finished runs."""
        rows = (self._read(file) for file in sorted(self.folder.glob("*.json")))
        return [row for row in rows if row is not None]

    def claim(self, experiment: Experiment) -> FileLock | None:
        """Return a lock on a run, taken, or None when another process has it. Release it after `put`."""
        self.check_writable()
        lock = FileLock(self.folder / ".locks" / experiment.id)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            return None
        return lock

    def _file(self, experiment: Experiment) -> Path:
        return self.folder / f"{experiment.id}.json"

    def _read(self, file: Path) -> Row | None:
        try:
            row: Any = json.loads(file.read_text())
        except (FileNotFoundError, NotADirectoryError):
            return None
        except ValueError as error:
            raise InputError(f"{file} is damaged ({error}); move it away and the run is made again") from error
        if not isinstance(row, dict):
            raise InputError(f"{file} is damaged (no row in it); move it away and the run is made again")
        return row

    def _write(self, file: Path, row: Row) -> None:
        """Write beside, then rename: a reader sees the whole row or none."""
        partial = file.with_name(f".{file.stem}-{os.getpid()}-{time.monotonic_ns()}.partial")
        with partial.open("w") as stream:
            json.dump(row, stream, indent=1)
            stream.write("\n")
            stream.flush()
            os.fsync(stream.fileno())
        partial.replace(file)
