"""Where the program begins and ends: an interrupt shows no traceback, whenever it comes."""

from __future__ import annotations

import signal


def start() -> int:
    """Run the program; its exit status.

    While modules are imported, and after the command has ended, an interrupt ends the process at
    once: there is nothing to put away. One that was ignored stays so.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        from infuse.cli.main import main

        return main()
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    from infuse.cli.main import INTERRUPTED, main

    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        return main()
    except KeyboardInterrupt:
        return INTERRUPTED
    finally:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
