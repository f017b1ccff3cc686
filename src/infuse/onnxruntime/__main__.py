"""`python -m infuse.onnxruntime script.py …`: run a program of ONNX Runtime on Infuse."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

from _infuse_as_onnxruntime import install

USAGE = "usage: python -m infuse.onnxruntime (script.py | -m module) [argument …]"


def main(arguments: list[str]) -> None:
    """Run a script, or with -m a module, as Python would, with Infuse in place of ONNX Runtime."""
    match arguments:
        case ["-m", module, *_]:
            install()
            sys.argv = arguments[1:]
            sys.path.insert(0, str(Path.cwd()))
            runpy.run_module(module, run_name="__main__", alter_sys=True)
        case ["-h" | "--help", *_]:
            sys.stdout.write(f"{USAGE}\n")
        case [script, *_] if not script.startswith("-"):
            if not Path(script).exists():
                sys.exit(f"there is no file {script}")
            install()
            sys.argv = arguments
            sys.path.insert(0, str(Path(script).resolve().parent))
            runpy.run_path(script, run_name="__main__")
        case _:
            sys.exit(USAGE)


if __name__ == "__main__":
    main(sys.argv[1:])
