"""Processes that answer, one for each question: begun beforehand, ended when nobody waits."""

from __future__ import annotations

import asyncio
import multiprocessing
import threading
from collections import deque
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess

from .job import Ended, Failed, Message, PageState, work

_PRELOADED = "forecache.reports.explore.warm"
_LOST = "The simulation ended by itself, most likely because memory ran out."


@dataclass(frozen=True)
class Answering:
    """A process that waits for a question, or answers one."""

    process: BaseProcess
    connection: Connection

    def ask(self, question: PageState) -> None:
        """Give it its only question."""
        self.connection.send(question)

    async def messages(self) -> AsyncGenerator[list[Message], None]:
        """What it says, in lists of all that has come since the last one.

        The last message is `Ended` or `Failed`, also where the process was lost.
        """
        loop, more = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(self.connection.fileno(), more.set)
        try:
            while True:
                await more.wait()
                more.clear()
                found = self._waiting()
                if found:
                    yield found
                    if isinstance(found[-1], Ended | Failed):
                        return
        finally:
            loop.remove_reader(self.connection.fileno())

    def _waiting(self) -> list[Message]:
        found: list[Message] = []
        try:
            while self.connection.poll():
                found.append(self.connection.recv())
        except (EOFError, ConnectionResetError):
            if not (found and isinstance(found[-1], Ended | Failed)):
                found.append(Failed(_LOST, input_error=False))
        return found

    def end(self) -> None:
        """End it in the middle of what it does; the processes that it has end with it."""
        self.process.kill()
        self.process.join()
        self.connection.close()


class Jobs:
    """Starts processes before they are needed, as a page asks again with every move of a control.

    They are forked from one that has imported and read everything (`warm.py`) and has one thread.
    """

    def __init__(self, *, ahead: int = 2) -> None:
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload([_PRELOADED])
        self._ahead = ahead
        self._spare: deque[Answering] = deque()
        self._lock = threading.Lock()

    def fill(self) -> None:
        """Start what is to be there beforehand."""
        with self._lock:
            while len(self._spare) < self._ahead:
                self._spare.append(self._new())

    def _new(self) -> Answering:
        ours, theirs = self._context.Pipe()
        process = self._context.Process(target=work, args=(theirs,))
        process.start()
        theirs.close()
        return Answering(process, ours)

    def take(self) -> Answering:
        """A process that waits for its question."""
        with self._lock:
            while self._spare:
                job = self._spare.popleft()
                if job.process.is_alive():
                    return job
                job.end()
            return self._new()

    def close(self) -> None:
        """End those that nobody took, and start no more beforehand."""
        with self._lock:
            self._ahead = 0
            while self._spare:
                self._spare.pop().end()
