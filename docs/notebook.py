"""Write docs/first_hour.ipynb from docs/first_hour.md, with what its code prints.

    python docs/notebook.py

A notebook is JSON, so nothing needs to be installed for it.
"""

import contextlib
import io
import json
import os
import re
import tempfile
from pathlib import Path

PAGE = Path(__file__).resolve().with_name("first_hour.md")
FILE = PAGE.with_suffix(".ipynb")
CODE = re.compile(r"^```python\n(.*?)^```\n", re.M | re.S)


def cells(text):
    """Return [(is code, text)] of a page, in order."""
    found, end = [], 0
    for block in CODE.finditer(text):
        found += [(False, text[end : block.start()]), (True, block[1])]
        end = block.end()
    return [
        (code, part.strip("\n")) for code, part in [*found, (False, text[end:])] if part.strip()
    ]


def printed(programs):
    """Run programs one after the other with common names; return what each prints."""
    names, outputs = {"__name__": "notebook"}, []
    for program in programs:
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile(program, FILE.name, "exec"), names)
        outputs.append(out.getvalue())
    return outputs


def notebook(parts, outputs):
    """Return a notebook, as nbformat 4.5 describes it; `outputs` are those of the code."""
    left, written = iter(outputs), []
    for number, (is_code, text) in enumerate(parts):
        cell = {"cell_type": "code" if is_code else "markdown", "id": f"cell-{number}"}
        cell |= {"metadata": {}, "source": text.splitlines(keepends=True)}
        if is_code:
            lines = next(left).splitlines(keepends=True)
            stream = {"name": "stdout", "output_type": "stream", "text": lines}
            cell |= {"execution_count": None, "outputs": [stream] if lines else []}
        written.append(cell)
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    metadata = {"kernelspec": kernel, "language_info": {"name": "python"}}
    return {"cells": written, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}


def main():
    """Run the page in a folder of its own, and write the notebook."""
    os.environ.setdefault("PD_DATASET_HOME", str(PAGE.parent.parent / "demos" / "data"))
    parts = cells(PAGE.read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as work, contextlib.chdir(work):
        outputs = printed(text for is_code, text in parts if is_code)
    text = json.dumps(notebook(parts, outputs), indent=1, ensure_ascii=False)
    FILE.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
