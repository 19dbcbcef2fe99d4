"""A child with the real entry point but no router in it; what it does wrong stands in a file of its name."""

import os
import socket
import sys
from pathlib import Path
from select import select

from routerd import process
from routerd.supervise.channel import Channel
from shm.contract.control import (
    CloseConnections,
    Closed,
    CoreGone,
    Drained,
    Exit,
    Fatal,
    Quiesced,
    Ready,
    Setup,
    StopAccepting,
    ToChild,
    WorkerGone,
    WorkerReclaimed,
)
from shm.memory import segment

BEHAVIOURS = Path(sys.argv[1])


def run(setup: Setup, channel: Channel[ToChild]) -> None:
    name = "core" if setup.role == "core" else f"worker-{setup.index}"
    file = BEHAVIOURS / name
    behaviour = file.read_text() if file.exists() else "serve"
    if behaviour == "raise":
        raise RuntimeError("no such\nengine")
    if behaviour == "fatal":
        channel.send(Fatal("the engine is missing; run make build"))
        sys.exit(1)
    if behaviour == "exit":
        os._exit(3)
    channel.send(Ready(os.getpid()))
    serve(setup, channel, deaf=behaviour == "deaf")


def serve(setup: Setup, channel: Channel[ToChild], *, deaf: bool) -> None:
    """Tell every client which process serves it; answer the supervisor unless deaf."""
    segments = segment.attach(setup.segments)
    page = segments.core_stats() if setup.role == "core" else segments.worker_stats(setup.index)
    sockets = [socket.socket(fileno=fd) for listener in setup.listeners for fd in listener.fds]
    while True:
        page.beat()
        readable, _, _ = select([channel, *sockets], [], [], 0.2)
        for sock in readable:
            if isinstance(sock, socket.socket):
                welcome(sock)
        while (message := channel.receive()) is not None:
            if deaf:
                continue
            match message:
                case StopAccepting():
                    while sockets:
                        sockets.pop().close()
                    channel.send(Drained())
                case CloseConnections():
                    channel.send(Closed())
                case WorkerGone(index, generation):
                    channel.send(WorkerReclaimed(index, generation - 1))  # stale: to be ignored
                    channel.send(WorkerReclaimed(index, generation))
                case CoreGone(generation):
                    channel.send(Quiesced(generation))
                case Exit():
                    return


def welcome(listening: socket.socket) -> None:
    try:
        connection, _ = listening.accept()
    except BlockingIOError:
        return  # another worker was faster
    with connection:
        connection.sendall(str(os.getpid()).encode())


if __name__ == "__main__":
    sys.modules["core.main"] = sys.modules["workers.main"] = sys.modules["__main__"]
    sys.exit(process.main(sys.argv[2:]))
