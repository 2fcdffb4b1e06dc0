"""A backend of another package: it passes the kit, and works when it is installed."""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.page import blocks

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "examples" / "own_backend"
PAGE = ROOT / "docs" / "guides" / "own-backend.md"
FILES = ("toy_offpath.py", "test_toy.py", "pyproject.toml")

SERVICE = """
import offpath

app = offpath.App()

@app.task
async def add(a: int, b: int) -> int:
    return a + b

@app.task(retry=1)
async def fail() -> None:
    raise ValueError("no")
"""


def test_the_page_shows_the_package() -> None:
    shown = {block.value: block.text for block in blocks(PAGE.read_text("utf-8"))}
    assert {name: shown[name] for name in FILES} == {
        name: (PACKAGE / name).read_text("utf-8") for name in FILES
    }


def test_the_store_has_at_most_200_lines_of_code() -> None:
    text = (PACKAGE / "toy_offpath.py").read_text("utf-8")
    told: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            told.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    code = [
        line
        for number, line in enumerate(text.splitlines(), 1)
        if line.strip() and not line.strip().startswith("#") and number not in told
    ]
    assert len(code) <= 200


@pytest.mark.timeout(180)
def test_the_toy_passes_the_kit(tmp_path: Path) -> None:
    for name in FILES:
        shutil.copy(PACKAGE / name, tmp_path)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", "test_toy.py"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert "toy does not declare groups: groups of jobs" in done.stdout


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder into which the package was built as a wheel, and installed."""
    folder = tmp_path_factory.mktemp("site")
    source = folder / "source"
    source.mkdir()
    for name in FILES:
        shutil.copy(PACKAGE / name, source)
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=source, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    target = folder / "installed"
    uv = shutil.which("uv") or str(Path(sys.executable).parent / "uv")
    install = [uv, "pip", "install", "--quiet", "--offline", "--no-deps", "--target", str(target)]
    subprocess.run([*install, str(wheel)], check=True, capture_output=True)
    return target


class Shell:
    """Runs the real program beside the installed package, as its users do."""

    def __init__(self, folder: Path, site: Path, url: str) -> None:
        (folder / "service.py").write_text(SERVICE, "utf-8")
        self._folder = folder
        self._environment = {
            **{name: value for name, value in os.environ.items() if "OFFPATH" not in name},
            "PYTHONPATH": f"{site}{os.pathsep}{folder}",
            "OFFPATH_URL": url,
        }

    def __call__(self, *args: str, code: int = 0) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "offpath", *args], cwd=self._folder, env=self._environment,
            capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip
        assert done.returncode == code, f"{args}\n{done.stdout}\n{done.stderr}"
        return done.stdout if code == 0 else done.stdout + done.stderr


@pytest.mark.timeout(180)
def test_an_installed_backend_serves_every_process(site: Path, tmp_path: Path) -> None:
    shell = Shell(tmp_path, site, f"toy://{tmp_path}/jobs.json")
    told = json.loads(shell("backends", "--json"))
    assert (told["backend"], told["durability"], told["installed"]) == ("toy", "fsync", ["toy"])
    added = shell("enqueue", "add", "a=1", "b=2", "--app", "service:app").split()[-1]
    dead = shell("enqueue", "fail", "--app", "service:app").split()[-1]
    shell("worker", "service:app", "--until-idle", code=3)  # a job has died
    assert json.loads(shell("jobs", "show", added, "--json"))["result"] == 3
    assert dead in shell("dead", "list")
    lines = shell("status").splitlines()
    assert any(line.split()[:4] == ["fail", "ValueError:", "no", "1"] for line in lines if line)
    assert json.loads(shell("jobs", "redrive", dead, "--json"))["ok"] is True
    assert json.loads(shell("queues", "list", "--json"))["items"][0]["ready"] == 1
    told_of = shell("queues", "pause", "default", code=1)
    assert "toy does not offer paused queues" in told_of
    assert "use a store that does" in shell("ledger", "prove", code=1)
