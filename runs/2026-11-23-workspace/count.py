"""Counts code lines and function lengths below each directory: no tests, comments or blank lines.

Usage: python3 count.py DIRECTORY...
"""
import os
import re
import sys

LEFT_OUT = ("target", ".git", "tests", "benches", "examples", "fuzz", "candle")
TESTS = re.compile(r"#\[cfg\(test\)\]\s*(pub(\([a-z]+\))? )?mod \w+ \{")
FUNCTION = re.compile(r"^(\s*)(pub(\([a-z: ]+\))? )?(const |async |unsafe |extern \"C\" )*fn \w+")


def sources(root):
    for path, directories, files in os.walk(root):
        directories[:] = [name for name in directories if name not in LEFT_OUT]
        yield from (os.path.join(path, name) for name in files if name.endswith(".rs"))


def code_lines(text):
    tests = TESTS.search(text)
    lines = (line.strip() for line in text[: tests.start() if tests else None].split("\n"))
    return sum(1 for line in lines if line and not line.startswith("//"))


def function_lengths(lines):
    for first, line in enumerate(lines):
        found = FUNCTION.match(line)
        if not found or line.rstrip().endswith(";"):
            continue
        if re.search(r"\{.*\}\s*$", line):
            yield 1
            continue
        end = found.group(1) + "}"
        for last in range(first, len(lines)):
            if lines[last].rstrip() == end:
                yield last - first + 1
                break
            if lines[last].rstrip().endswith(";") and "{" not in "".join(lines[first : last + 1]):
                break


for root in sys.argv[1:]:
    texts = [open(path).read() for path in sources(root)]
    lengths = sorted(length for text in texts for length in function_lengths(text.split("\n")))
    median, p90 = lengths[len(lengths) // 2], lengths[int(len(lengths) * 0.9)]
    print(f"{root}: {sum(map(code_lines, texts))} code lines; function lines: median {median}, 90th percentile {p90}")
