"""The pages tell the truth: their Python runs, their marked commands work, their links resolve."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote

import pytest

from tests.architecture.fragments import CONTINUES, IN_MAIN, TO_WRAP, remark
from tests.architecture.page import ROOT, Block, blocks, pages, prose, runs, skipped

_LINK = re.compile(r"(?<!!)\[[^\]]*\]\((?P<target>[^)\s]+)(?:\s+\"[^\"]*\")?\)")
_HEADING = re.compile(r"^#{1,6}\s+(?P<text>.+?)\s*#*$", re.MULTILINE)

PAGES = pages()


def _name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def _runs(page: Path) -> bool:
    return any(runs(block) for block in blocks(page.read_text("utf-8")))


def run_page(page: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a page in a folder of its own, as a reader would with nothing else set up."""
    environment = dict(os.environ)
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    environment["PYTHONPATH"] = str(ROOT)
    return subprocess.run(
        [sys.executable, "-m", "tests.architecture.page", str(page)],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.timeout(180)
@pytest.mark.parametrize("page", [page for page in PAGES if _runs(page)], ids=_name)
def test_what_a_page_shows_works(page: Path, tmp_path: Path) -> None:
    done = run_page(page, tmp_path)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"


def test_a_block_is_skipped_only_for_a_reason() -> None:
    reasons = {f"{name}:{block.line}": block.value for name, block in skipped()}
    assert {place: why for place, why in reasons.items() if len(why.split()) < 3} == {}


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_a_block_is_a_file_or_says_what_it_is_part_of(page: Path) -> None:
    """Whoever copies a block into a file runs it, or is told first why not."""
    shown = [block for block in blocks(page.read_text("utf-8")) if block.kind == "python"]
    wrong = [
        (block.line, needed)
        for block in shown
        if block.mark != "skip" and (needed := remark(block))
        if not block.text.startswith(f"{needed}\n")
    ]
    assert wrong == []


@pytest.mark.parametrize(
    ("text", "lacks"),
    [
        ("import offpath\napp = offpath.App()\n", None),
        ("app.task(print)\n", CONTINUES),
        ("async with app:\n    print(1)\n", IN_MAIN),
        ("import asyncio\nawait asyncio.sleep(0)\n", TO_WRAP),
        ("import asyncio\nasync def main(): await asyncio.sleep(0)\nasyncio.run(main())\n", None),
    ],
)
def test_what_a_block_lacks_to_be_a_file_is_seen(text: str, lacks: str | None) -> None:
    assert remark(Block("python", 1, text)) == lacks
    assert not TO_WRAP.startswith("#"), "no comment stands for a function"


def unnamed(text: str) -> list[str]:
    """Files of a page whose name stands in the comment alone, which no reader sees."""
    files = {block.line - 2: block for block in blocks(text) if block.mark == "file"}
    lines = text.splitlines()
    return [
        block.value
        for at, block in files.items()
        if block.value not in block.text.partition("\n")[0]
        if f"`{block.value}`" not in _paragraph_above(lines, at)
    ]


def _paragraph_above(lines: list[str], at: int) -> str:
    """The text above the comment over the fence that is the line with this index."""
    above = "\n".join(lines[: at - 1]).rstrip()
    return above.rpartition("\n\n")[2]


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_a_file_is_named_where_a_reader_sees_it(page: Path) -> None:
    assert unnamed(page.read_text("utf-8")) == []


def test_a_file_without_a_name_is_seen() -> None:
    block = "<!-- file: made.py -->\n```py\nnumber = 7\n```\n"
    assert unnamed(f"A file:\n\n{block}") == ["made.py"]
    assert unnamed(f"The file `made.py`:\n\n{block}") == []
    assert unnamed(block.replace("number", "# made.py\nnumber")) == []


def test_the_first_page_is_short() -> None:
    """Who never heard of it reads so much, and no more."""
    assert len((ROOT / "README.md").read_text("utf-8").split()) <= 900


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_the_links_of_a_page_lead_somewhere(page: Path) -> None:
    links = [match["target"] for match in _LINK.finditer(prose(page.read_text("utf-8")))]
    internal = [link for link in links if not re.match(r"[a-z][a-z+.-]*:", link)]
    assert [link for link in internal if not _resolves(page, link)] == []


def _resolves(page: Path, link: str) -> bool:
    path, _, anchor = unquote(link).partition("#")
    target = (page.parent / path).resolve() if path else page
    if not target.exists() or not target.is_relative_to(ROOT):
        return False
    return not anchor or target.suffix != ".md" or anchor in _anchors(target)


def _anchors(page: Path) -> set[str]:
    headings = [match["text"] for match in _HEADING.finditer(prose(page.read_text("utf-8")))]
    return {slug(heading) for heading in headings}


def slug(heading: str) -> str:
    """The anchor that code hosts make of a heading."""
    words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    return re.sub(r"[^\w\- ]", "", words.lower()).strip().replace(" ", "-")


# -- the runner itself: a test that cannot fail would prove nothing --------------------------------


def _page(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "page.md"
    path.write_text(text, "utf-8")
    return path


def test_blocks_share_names_and_may_await(tmp_path: Path) -> None:
    text = (
        "```python\nimport asyncio\nnumber = 1\n```\n\ntext\n\n"
        "```python\nawait asyncio.sleep(0)\nassert number == 1\nprint('reached')\n```\n"
    )
    assert run_page(_page(tmp_path, text), tmp_path).stdout == "reached\n"


def test_a_wrong_block_fails_with_its_line(tmp_path: Path) -> None:
    done = run_page(_page(tmp_path, "# page\n\n```python\n\nassert 1 == 2\n```\n"), tmp_path)
    assert done.returncode != 0
    assert 'page.md", line 5' in done.stderr


def test_files_are_written_and_commands_run(tmp_path: Path) -> None:
    text = (
        "<!-- file: made.py -->\n```python\nnumber = 7\n```\n"
        '<!-- run -->\n```console\n$ python -c "import made; print(made.number)"\n7\n```\n'
    )
    assert run_page(_page(tmp_path, text), tmp_path).stdout.splitlines()[-1] == "7"


def test_what_a_page_exports_is_set_below(tmp_path: Path) -> None:
    text = "".join(
        f"<!-- run -->\n```console\n$ {command}\n```\n\n"
        for command in ("export SHOP=open", "echo $SHOP")
    )
    assert run_page(_page(tmp_path, text), tmp_path).stdout.splitlines()[-1] == "open"


def test_a_command_that_fails_fails_the_page(tmp_path: Path) -> None:
    text = "<!-- run -->\n```console\n$ false\n```\n"
    assert run_page(_page(tmp_path, text), tmp_path).returncode != 0


def test_a_skipped_block_is_not_run_and_keeps_its_reason() -> None:
    (block,) = blocks("<!-- skip: needs a server -->\n```python\n1 / 0\n```\n")
    assert (block, runs(block)) == (
        Block("python", 3, "1 / 0\n", mark="skip", value="needs a server"),
        False,
    )


def test_a_link_to_nowhere_is_seen(tmp_path: Path) -> None:
    page = ROOT / "README.md"
    assert not _resolves(page, "docs/no-such-page.md")
    assert not _resolves(page, "#no-such-heading")
    assert _resolves(page, "LICENSE")


@pytest.mark.parametrize(
    ("heading", "expected"),
    [("One rhythm", "one-rhythm"), ("`stop()`: how?", "stop-how"), ("[A](b.md) c", "a-c")],
)
def test_headings_become_anchors(heading: str, expected: str) -> None:
    assert slug(heading) == expected
