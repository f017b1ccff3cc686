"""The King James Bible, from Debian's bible-kjv: English text that anybody may use."""

from __future__ import annotations

import re
import subprocess

from benchmarks.compression_tasks.packages import Packages


def chapters(packages: Packages) -> list[list[str]]:
    """The verses of every chapter, in order."""
    root = packages.debian("bible-kjv", "bible-kjv-text")
    command = [str(root / "usr/bin/bible"), "-p", str(root / "usr/lib"), "-l32000"]
    done = subprocess.run([*command, "gen1:1-rev22:21"], capture_output=True, check=True, text=True)
    result: list[list[str]] = []
    for line in done.stdout.splitlines():
        verse = re.match(r"\s+(\d+) (.*)", line)
        if verse is None:
            continue
        if verse[1] == "1":
            result.append([])
        result[-1].append(verse[2].strip())
    return result


def verses(packages: Packages) -> list[str]:
    """All verses, in order."""
    return [verse for chapter in chapters(packages) for verse in chapter]
