"""SIGTERM and SIGINT as a request: noted at once, met at the end of a step."""

import os
import signal
import threading

RESUMABLE = 75  # EX_TEMPFAIL of sysexits.h: run the same again


class Interrupted(SystemExit):
    """Ends the process with status 75: the run is saved, and the same command goes on with it."""

    def __init__(self):
        super().__init__(RESUMABLE)


class Interruption:
    """Notes the first SIGTERM or SIGINT; a second one does what it did before.

    Attributes:
        received: the signal's name, None before it comes.
    """

    def __init__(self):
        self.received = None
        self._before = {}

    def watch(self):
        """Handle both signals from now on, where this is the main thread; others may not."""
        self.received = None
        if self._before or threading.current_thread() is not threading.main_thread():
            return
        for number in (signal.SIGTERM, signal.SIGINT):
            self._before[number] = signal.signal(number, self._note)

    def stop(self):
        """Handle them as before."""
        while self._before:
            number, handler = self._before.popitem()
            # None: a handler that was not set from Python cannot be set from it.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)

    def _note(self, number, frame):
        self.received = signal.Signals(number).name
        self.stop()
        # Not `print`: a handler may have interrupted one.
        os.write(
            2, f"\n{self.received}: ending the step, then saving. Again to stop now.\n".encode()
        )
