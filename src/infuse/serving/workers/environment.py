"""The environment variables of processes that see models: those of the server, without what opens
other doors.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Final

_STORES: Final = ("AWS_", "AZURE_", "GOOGLE_", "GCP_", "GCLOUD_")
_SECRET: Final = re.compile(
    r"TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL|API_?KEY|PRIVATE_?KEY", re.IGNORECASE
)


def child_environment(environment: Mapping[str, str] | None = None) -> dict[str, str]:
    """The variables that a worker or a compiling process gets: none of object stores, none that is
    named as a secret.

    Modules are not looked for in the current folder. `environment` stands for that of this process.
    """
    variables = os.environ if environment is None else environment
    result = {
        name: value
        for name, value in variables.items()
        if not name.upper().startswith(_STORES) and not _SECRET.search(name)
    }
    return {**result, "PYTHONSAFEPATH": "1"}
