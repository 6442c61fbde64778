"""screen.py ROWSxCOLUMNS STEP... -- COMMAND...: run a command on a terminal, step by step.

see:REGEX waits until the newest frame, without its control sequences, matches; key:TEXT types it; size:ROWSxCOLUMNS
resizes; signal:NAME sends it; run:COMMAND runs a command of the shell; end waits until the command has ended. The newest frame is
printed; the exit status is the command's, or 99 if a step did not come within 20 seconds (TEST_PATIENCE times as long), or if the
terminal was not left as it was.
"""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time


SECONDS = 20 * int(os.environ.get("TEST_PATIENCE", "1"))


def resize(master, size):
    rows, columns = (int(n) for n in size.split("x"))
    fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


class Screen:
    def __init__(self, size, command):
        ready, is_ready = os.pipe()
        self.pid, self.master = pty.fork()
        if self.pid == 0:
            os.close(is_ready)
            os.read(ready, 1)  # until the size is set, and the mode known
            os.execvp(command[0], command)
        resize(self.master, size)
        self.mode = termios.tcgetattr(self.master)[3]
        os.close(is_ready)
        os.close(ready)
        self.bytes = b""
        self.status = None

    def frame(self):
        text = self.bytes.decode("utf-8", "replace").split("\033[H")[-1]
        return re.sub("\033\\[[0-9;?]*[A-Za-z]", "", text).replace("\r", "")

    def read(self):
        if not select.select([self.master], [], [], 0.05)[0]:
            return
        try:
            self.bytes += os.read(self.master, 65536)
        except OSError:
            _, self.status = os.waitpid(self.pid, 0)

    def wait(self, what, done):
        until = time.monotonic() + SECONDS
        while not done():
            if self.status is not None or time.monotonic() > until:
                sys.exit("%s did not come; the newest frame:\n%s" % (what, self.frame()))
            self.read()

    def ended(self):
        return self.status is not None

    def step(self, step):
        kind, _, text = step.partition(":")
        if kind == "see":
            self.wait(step, lambda: re.search(text, self.frame(), re.MULTILINE))
        elif kind == "key":
            os.write(self.master, text.encode())
        elif kind == "size":
            resize(self.master, text)
        elif kind == "signal":
            os.kill(self.pid, getattr(signal, "SIG" + text))
        elif kind == "run":
            subprocess.run(text, shell=True, check=True, stdout=subprocess.DEVNULL)
        elif kind == "end":
            until = time.monotonic() + SECONDS
            while not self.ended() and time.monotonic() < until:
                self.read()
            if not self.ended():
                sys.exit("it did not end")
            if termios.tcgetattr(self.master)[3] != self.mode or b"\033[?1049l" not in self.bytes:
                sys.exit("it left the terminal in another mode")


def main():
    split = sys.argv.index("--")
    screen = Screen(sys.argv[1], sys.argv[split + 1 :])
    try:
        for step in sys.argv[2:split]:
            screen.step(step)
        print(screen.frame(), end="")
        return os.waitstatus_to_exitcode(screen.status) if screen.ended() else 0
    except SystemExit as failed:
        print(failed.code, file=sys.stderr)
        return 99
    finally:
        if not screen.ended():
            os.kill(screen.pid, signal.SIGKILL)
            os.waitpid(screen.pid, 0)


if __name__ == "__main__":
    sys.exit(main())
