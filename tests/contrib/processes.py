"""The files of a page as processes: written and started as a reader would."""

from __future__ import annotations

import os
import subprocess
import sys
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.architecture.page import ROOT, blocks
from tests.integration.polling import eventually

if TYPE_CHECKING:
    from pathlib import Path


def write_files(page: str, folder: Path) -> None:
    """Write the files that a page of the documentation shows."""
    for block in blocks((ROOT / "docs" / "integrations" / page).read_text("utf-8")):
        if block.mark == "file":
            target = folder / block.value
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(block.text, "utf-8")


@dataclass(slots=True)
class Processes:
    """Starts programs in one folder, and kills those that are left."""

    folder: Path
    variables: dict[str, str]
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        """Start ``python`` with these arguments; its output goes into a file."""
        log = self.folder / f"process-{len(self.started)}.log"
        with log.open("wb") as output:
            one = subprocess.Popen(
                [sys.executable, *arguments], cwd=self.folder,
                env={**os.environ, "PYTHONPATH": str(self.folder), **self.variables},
                stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
            )  # fmt: skip
        self.started.append(one)
        return one

    def run(self, *arguments: str) -> None:
        """Run ``python`` with these arguments to its end, which must be a success."""
        done = subprocess.run(
            [sys.executable, *arguments], cwd=self.folder,
            env={**os.environ, "PYTHONPATH": str(self.folder), **self.variables},
            stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr

    def output(self) -> str:
        """The output of all so far."""
        logs = sorted(self.folder.glob("process-*.log"))
        return "\n".join(log.read_text(errors="replace")[-4000:] for log in logs)

    def destroy(self) -> None:
        """Kill what is left."""
        for one in self.started:
            one.kill()
            one.wait()


def post(url: str) -> tuple[int, bytes]:
    """Post nothing; the status and the body, 0 where nobody answers."""
    try:
        with urllib.request.urlopen(urllib.request.Request(url, method="POST"), timeout=20) as got:
            return got.status, got.read()
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code, refused.read()
    except OSError:
        return 0, b""


async def posted(url: str, status: int, *, within: float = 40.0) -> bytes:
    """Post until the answer is this one, as a client does that does not give up; its body."""

    def answered() -> bytes | None:
        found, body = post(url)
        return body or b"{}" if found == status else None

    body: bytes = await eventually(answered, within=within, what=f"{url} answers {status}")
    return body
