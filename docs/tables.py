"""Write the result tables of README.md and docs/ anew from the committed rows; each marker names its command."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
BLOCK = re.compile(r"(<!-- table: (?P<command>[^>]*?) -->\n).*?(<!-- end of table -->)", re.DOTALL)


def table(command: str) -> str:
    """Return what `sizeshiftreg COMMAND --markdown` prints for the rows in results/."""
    words = [
        sys.executable,
        "-m",
        "sizeshiftreg.cli",
        *command.split(),
        "--results",
        "results",
        "--no-train",
        "--markdown",
    ]
    return subprocess.run(words, cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()


def renew(text: str) -> str:
    """Return a page with every table written anew."""
    return BLOCK.sub(lambda block: f"{block[1]}\n{table(block['command'])}\n\n{block[3]}", text)


def pages() -> list[Path]:
    """Return the pages that may hold tables."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


if __name__ == "__main__":
    for page in pages():
        old = page.read_text()
        new = renew(old)
        if new != old:
            page.write_text(new)
            print(f"{page.relative_to(ROOT)} written anew")
