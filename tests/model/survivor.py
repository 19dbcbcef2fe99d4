"""What a model worker does when the core dies, and when there is a new one."""

from bench import contract as n
from bench.contract import C_CONNECTION_OPENED, C_PRESENTED
from shm.contract.payloads import ConnectionOpened, Presented
from tests.model.worker import Worker


def leave(worker: Worker) -> None:
    """Whatever was on its way is over, and nothing is passed on before the next core knows all links."""
    worker.resting = True
    for delivery in worker.incoming.values():
        message = delivery.message
        if delivery.writer is not None:  # its rest is thrown away, and the credit comes back from here
            delivery.link.credit += 1
        if message.alive and not message.presettled:
            if delivery.told:
                message.settled.append(message.told[-1])
            else:
                worker.ledger.tell(message.number, n.S_MODIFIED, settled=True)
        message.alive = False
    worker.incoming.clear()
    worker.claims.clear()
    for link in worker.links.values():
        link.outs.clear()
        link.draining = False


def come_back(worker: Worker) -> None:
    """All blocks are its own again, and the new core is told of connections and links."""
    worker.begin()
    for connection, generation in worker.connections.items():
        worker.control(C_CONNECTION_OPENED, ConnectionOpened(connection, generation, "c", "h:1"))
    for link in worker.links.values():
        worker.ask(link, restored=link.open)
        if link.drains:
            link.drains = 0
            worker.drain(link)
    worker.control(C_PRESENTED, Presented())
