"""The README tells the truth: its example runs, prints what it says, and its commands exist."""

import io
import re
from contextlib import redirect_stdout

import pytest


@pytest.fixture(scope="module")
def readme(repository):
    return (repository / "README.md").read_text(encoding="utf-8")


def test_the_examples_print_what_the_readme_shows(readme):
    # Each ```python block, with the ```text block that follows at once, if any.
    pattern = r"^```python\n(.*?)^```\n(?:\n?(?:prints\n\n)?^```text\n(.*?)^```\n)?"
    blocks = re.findall(pattern, readme, re.DOTALL | re.MULTILINE)
    assert blocks, "the README shows no example"
    assert any(shown for _, shown in blocks), "the README shows no output"
    namespace: dict[str, object] = {}
    for code, shown in blocks:
        printed = io.StringIO()
        with redirect_stdout(printed):
            exec(compile(code, "README.md", "exec"), namespace)
        if shown:
            assert printed.getvalue() == shown


def test_the_example_is_about_ten_lines(readme):
    first = re.findall(r"^```python\n(.*?)^```", readme, re.DOTALL | re.MULTILINE)[0]
    assert len(first.strip().splitlines()) <= 10


def test_every_make_target_named_exists(readme, repository):
    makefile = (repository / "Makefile").read_text(encoding="utf-8")
    named = set(re.findall(r"(?:^|`)make ([a-z]+)", readme, re.MULTILINE))
    assert {"demo", "test"} <= named
    assert named <= set(re.findall(r"^([a-z]+):", makefile, re.MULTILINE))


def test_every_file_linked_exists(readme, repository):
    for target in re.findall(r"\]\(([^)#:]+)\)", readme):
        assert (repository / target).exists(), target
