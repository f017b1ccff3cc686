"""Networks with real data and a true score, on which compression is judged: `Task`, `task`,
`NAMES`, and the command `python -m benchmarks.compression_tasks FOLDER [NAME…]`.
"""

from benchmarks.compression_tasks.base import Feeds, Run, Task
from benchmarks.compression_tasks.catalog import NAMES, task

__all__ = ["NAMES", "Feeds", "Run", "Task", "task"]
