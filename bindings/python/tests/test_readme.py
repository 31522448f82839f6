# SPDX-License-Identifier: Apache-2.0
"""The blocks of Python in README.md run, one after another, as one program on each rank."""

import os
import pathlib
import re

text = pathlib.Path(__file__).parents[1].joinpath("README.md").read_text()
blocks = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
assert len(blocks) >= 3, blocks
program = {"__name__": "readme"}
for block in blocks:
    exec(compile(block, "README.md", "exec"), program)
assert len(text.splitlines()) <= 80
if os.environ["TRYST_RANK"] == "0":
    print("passed test_readme.py", len(blocks))
