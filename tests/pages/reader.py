"""Runs the blocks of a page in a folder, as somebody does who follows it."""

from __future__ import annotations

import ast
import asyncio
import inspect
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from infuse.serving.config import ServerConfig
from infuse.serving.control.model_config import ModelConfig
from infuse.serving.control.reading import convert
from infuse.serving.transports.security import check_exposure
from tests.cli_tools import Cli
from tests.pages.blocks import SHELL, Block
from tests.serving.processes import ServeProcess

SOURCES = ("c", "cpp", "csharp", "go", "java", "js", "rust")
"""Languages whose blocks are files, which a comment in the first line names."""
ADMIN = ("rollout", "rollback")
ZIG = f'#!/bin/sh\nexec {sys.executable} -m ziglang cc "$@"\n'
"""A C compiler for systems that have none."""
STATE = "status=$?; printf '\\0'; pwd; env -0; exit $status"
"""What a shell tells at its end for the next command."""


class Reader:
    """A namespace of Python, a shell and a server, for the blocks of one page in their order.

    `names` are there for Python. `instead` replaces parts of commands, each of which has to occur.
    The process is in the page's folder, `patch` takes the reader's changes of it back.
    """

    def __init__(
        self,
        capsys: pytest.CaptureFixture[str],
        patch: pytest.MonkeyPatch,
        names: Mapping[str, Any],
        instead: Mapping[str, str],
    ) -> None:
        self.cli, self.capsys, self.patch = Cli(capsys), capsys, patch
        self.names: dict[str, Any] = {"__name__": "page", **names}
        self.instead = dict(instead)
        self.unused = {*instead}
        self.printed = ""  # by blocks of Python
        self.outputs: dict[str, str] = {}  # of commands, as the page writes them
        self.folder = Path.cwd()
        self.server: ServeProcess | None = None
        if shutil.which("cc") is None:
            compiler = self.folder / ".bin" / "cc"
            compiler.parent.mkdir()
            compiler.write_text(ZIG, encoding="utf-8")
            compiler.chmod(0o755)
            patch.setenv("PATH", str(compiler.parent), prepend=os.pathsep)

    def close(self) -> None:
        """End what the page has started."""
        if self.server is None:
            return
        log = self.server.errors.read_text()
        self.server.__exit__()
        assert " ERROR " not in log, log

    def read(self, block: Block, skipped: frozenset[str]) -> None:
        """Run a block, without these commands of it."""
        if block.language == "python":
            self._python(block)
        elif block.language in SHELL:
            self.patch.chdir(self.folder)
            for command in block.commands:
                if command not in skipped:
                    self._command(command)
        elif block.language == "yaml":
            self._configuration(block.text)
        elif block.language in SOURCES:
            self._place(block.text, "//").write_text(block.text, encoding="utf-8")
        elif block.language == "cmake":
            self._place(block.text, "#").write_text(block.text, encoding="utf-8")
        else:
            raise AssertionError(f"nothing runs a block of {block.language!r}: {block}")

    def _python(self, block: Block) -> None:
        """In a file of its own, since torch.jit.script reads the source of a class."""
        path = self.folder / f"line_{block.line}.py"
        path.write_text(block.text, encoding="utf-8")
        self.capsys.readouterr()
        code = compile(block.text, path, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        if code.co_flags & inspect.CO_COROUTINE:
            asyncio.run(eval(code, self.names))
        else:
            exec(code, self.names)
        self.printed += self.capsys.readouterr().out

    def _command(self, written: str) -> None:
        command = written
        for old, new in self.instead.items():
            if old in command:
                command = command.replace(old, new)
                self.unused.discard(old)
        command = self._with_ports(command)
        words = shlex.split(command, comments=True)
        if words[0] != "infuse":
            self.outputs[written] = self._shell(command)
        elif words[1] == "serve" and "--make-token" not in words:
            self._serve(words[2:])
        else:
            self.outputs[written] = self._infuse(words[1:])

    def _infuse(self, words: list[str]) -> str:
        if words[0] in ADMIN and self.server is not None:
            words = [*words, "--admin", f"http://127.0.0.1:{self.server.admin}"]
        answer = self.cli(*words)
        assert answer.status == 0, f"{words}: {answer.err}"
        assert answer.out, words
        return answer.out

    def _shell(self, command: str) -> str:
        """The output of other programs; folder and variables stay as they leave them."""
        command = re.sub(r"^curl -s ", "curl -sSf ", command)  # an error of HTTP is one
        script = f"{command}\n{STATE}"
        done = subprocess.run(
            ["bash", "-c", script], capture_output=True, text=True, check=False, timeout=600
        )
        assert done.returncode == 0, f"{command}: {done.stderr}"
        output, state = done.stdout.split("\0", 1)
        folder, variables = state.split("\n", 1)
        self.patch.chdir(folder)
        for name, _, value in (each.partition("=") for each in variables.split("\0") if each):
            if os.environ.get(name) != value:
                self.patch.setenv(name, value)
        if self.server is not None:
            self._until_all_serve()
        return output

    def _serve(self, words: list[str]) -> None:
        assert self.server is None, "a page starts one server"
        self.server = ServeProcess(words[0], self.folder, words[1:]).serve()
        self._until_all_serve()

    def _with_ports(self, command: str) -> str:
        """The usual ports replaced by those of the server that runs."""
        if self.server is None:
            assert "localhost:" not in command, f"nothing serves yet: {command}"
            return command
        ports = {8000: self.server.http, 8001: self.server.grpc, 8002: self.server.admin}
        return re.sub(r"localhost:(800\d)", lambda m: f"127.0.0.1:{ports[int(m[1])]}", command)

    def _configuration(self, text: str) -> None:
        """A server's is read as a server does; a model's is written and served."""
        path, settings = self._place(text, "#"), yaml.safe_load(text)
        if path.name == "server.yaml":
            check_exposure(convert(ServerConfig, settings, path.name))
            return
        assert path.name == "config.yaml", path
        convert(ModelConfig, settings, str(path))
        hidden = path.parent.with_name(f".{path.parent.name}")  # what a test puts beside it
        folder = hidden if hidden.exists() else path.parent
        folder.mkdir(parents=True, exist_ok=True)
        (folder / path.name).write_text(text, encoding="utf-8")
        folder.rename(path.parent)
        if self.server is None:
            self._serve(["models"])
        else:
            time.sleep(1)  # several times as long as it takes to see what is new
            self._until_all_serve()

    def _place(self, text: str, comment: str) -> Path:
        """The file that the first line of a block names."""
        place = re.match(rf"{comment} (\S+)\n", text)
        assert place, f"the first line does not say which file it is: {text[:60]!r}"
        path = self.folder / place[1]
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def _until_all_serve(self) -> None:
        """Every version of the repository answers."""
        server = self.server
        assert server is not None
        for path in sorted((self.folder / "models").glob("[!.]*/[0-9]*")):
            place = f"/v2/models/{path.parent.name}/versions/{path.name}/ready"
            server.until(lambda place=place: server.get(place) == 200, place)
        for path in sorted((self.folder / "models").glob("[!.]*")):
            place = f"/v2/models/{path.stem}/ready"
            server.until(lambda place=place: server.get(place) == 200, place)
