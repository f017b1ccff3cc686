"""An engine over a folder of tiny models, for as long as a test needs it."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from infuse.serving.engine.engine import Engine
from tests.serving import models
from tests.serving.models import config


async def loaded(engine: Engine, name: str, *versions: int) -> None:
    """Wait until these versions of a model are loaded, and no others."""
    await models.until(
        lambda: name in engine.models and sorted(engine.models[name].versions) == sorted(versions),
        f"{name} has the versions {versions}",
    )


def served(folder: Path, work: Callable[[Engine], Any], **fields: Any) -> None:
    """Do something with an engine."""

    async def run() -> None:
        async with Engine(config(folder, **fields)) as engine:
            await work(engine)

    asyncio.run(run())
