"""Numbers that tune several parts alike. Those of one part stand where they are used; limits, which
protect, have names with MOST in them, and are no tuning.
"""

from __future__ import annotations

from typing import Final

LOOK_SECONDS: Final = 0.25
"""Between two looks at what is in memory: rollouts, readiness, locks, what waits for export."""
UPKEEP_SECONDS: Final = 1.0
"""Between two looks that cost something: at files of certificates, at all that is under way."""
WAIT_SECONDS: Final = 0.005
"""Between two looks at whether the last of what runs has ended."""
END_SECONDS: Final = 2.0
"""That something which should end, or be complete, by itself is waited for."""
RETRY_SECONDS: Final = 0.1
"""Before the first new try of something that failed; where tries go on failing, it is doubled."""
LOSS_SECONDS: Final = 60.0
"""Within which losses of workers are taken for one cause; who lives longer starts afresh."""
PIECE_BYTES: Final = 1 << 20
"""That are read, copied or compressed at once; for more, a thread does it, and others go on."""
PIECE_ELEMENTS: Final = 4096
"""The same of texts, which are converted one by one."""
THREADS: Final = 4
"""At most, for work beside the loop that holds Python's lock for a small part of its time."""
