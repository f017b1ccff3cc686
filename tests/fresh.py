"""Environments as a newcomer makes them: empty, with packages that pip installs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


class Fresh:
    """A new environment in a folder; `install` and `run` work in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
        self.bin = folder / "venv" / "bin"
        left_out = ("PYTHONPATH", "PYTHONHOME", "INFUSE_PREBUILT")
        self.environment = {k: v for k, v in os.environ.items() if k not in left_out}
        self.environment["INFUSE_CACHE"] = str(folder / "cache")

    def install(self, *packages: str) -> None:
        """Install packages, all of which must go together."""
        command = ["-m", "pip", "install", "-q", "--disable-pip-version-check", *packages]
        done = self.python(*command)
        assert "incompatible" not in done.stderr

    def python(self, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        """Run the environment's Python in its folder."""
        return self.run("python", *arguments)

    def run(self, program: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        """Run a program of the environment in its folder; it must succeed."""
        return self._done([self.bin / program, *arguments], self.folder)

    def shell(self, line: str, folder: Path) -> subprocess.CompletedProcess[str]:
        """Run a line of a shell, in which the environment is active, in a folder."""
        return self._done(["bash", "-ec", f". '{self.bin}/activate'\n{line}"], folder)

    def _done(self, command: list[str | Path], folder: Path) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            command,
            env=self.environment,
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
        return done
