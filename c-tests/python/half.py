"""One half of a pair of jobs: c-tests/c/half.c does the same in C.

    half.py MINE THEIRS SIDE c|python FOLDER

Rank r talks to rank r of the other job. SIDE is 0 or 1: who sends first. The folder is for
checkpoints.
"""

import os
import sys
from pathlib import Path

import kit
import numpy as np
from kit import fails, same, world
from mpi4py import MPI

import mpi_connect


def values(seed, n):
    return seed * 1000.0 + np.arange(n) % 997


def turns(first, second):
    """Side 0 does `first` before `second`, side 1 the other way round."""
    for step in (first, second) if side == 0 else (second, first):
        step()


def blocking():
    for tag, n in enumerate([0, 1, 1000, 200000]):

        def send():
            (other.Send if tag % 2 else other.Ssend)(values(side, n), dest=peer, tag=tag)

        def receive():
            status = MPI.Status()
            got = np.empty(n + 1)
            other.Recv(got, source=MPI.ANY_SOURCE if tag % 2 else peer, tag=tag, status=status)
            same(status.source, peer, "source")
            same(status.tag, tag, "tag")
            same(status.Get_count(MPI.DOUBLE), n, "count")
            same((got[:n] == values(1 - side, n)).all(), True, "data")

        turns(send, receive)


def nonblocking():
    sizes = [3, 5000, 300000]
    outs = [values(side + 2, n) for n in sizes]
    backs = [np.empty(n) for n in sizes]
    statuses = [MPI.Status() for _ in range(2 * len(sizes))]
    requests = [other.Irecv(b, source=peer, tag=i) for i, b in enumerate(backs)]
    requests += [other.Isend(o, dest=peer, tag=i) for i, o in enumerate(outs)]
    if side == 0:
        MPI.Request.Waitall(requests, statuses)
    else:
        done = set()
        while len(done) < len(requests):
            done.add(MPI.Request.Waitany(requests, statuses[0]))
    for i, n in enumerate(sizes):
        if side == 0:
            same(statuses[i].Get_count(MPI.DOUBLE), n, "count of a request")
        same((backs[i] == values(3 - side, n)).all(), True, "data of a request")
    same(all(r == MPI.REQUEST_NULL for r in requests), True, "requests are spent")
    # Beside a request of the job's own.
    mixed = [world.Irecv(backs[0], source=world.rank, tag=9), other.Irecv(backs[1], source=peer, tag=9)]
    world.Send(outs[0], dest=world.rank, tag=9)
    other.Send(outs[1], dest=peer, tag=9)
    while not MPI.Request.Testall(mixed):
        pass
    same((backs[0] == outs[0]).all() and (backs[1] == values(3 - side, sizes[1])).all(), True, "mixed requests")


def probes():
    n = 77 + world.rank

    def send():
        other.Send(values(side + 4, n), dest=peer, tag=5)

    def receive():
        status = MPI.Status()
        if side == 0:
            other.Probe(MPI.ANY_SOURCE, MPI.ANY_TAG, status)
        else:
            while not other.Iprobe(peer, 5, status):
                pass
        same((status.source, status.tag), (peer, 5), "probed")
        got = np.empty(status.Get_count(MPI.DOUBLE))
        other.Recv(got, source=status.source, tag=status.tag)
        same((got == values(5 - side, n)).all(), True, "data after a probe")

    turns(send, receive)
    if MPI.Get_version() < (3, 0):
        return

    def receive_matched():
        status = MPI.Status()
        if side == 0:
            message = other.Mprobe(peer, MPI.ANY_TAG, status)
        else:
            while (message := other.Improbe(MPI.ANY_SOURCE, 5, status)) is None:
                pass
        same((status.source, status.tag), (peer, 5), "matched")
        same(status.Get_count(MPI.DOUBLE), n, "count of a matched message")
        same(other.Iprobe(peer, 5), False, "a matched message is gone")
        got = np.empty(n)
        if side == 0:
            message.Recv(got, status)
        else:
            message.Irecv(got).Wait(status)
        same(message == MPI.MESSAGE_NULL, True, "a message is spent")
        same(status.Get_count(MPI.DOUBLE), n, "count of a matched receive")
        same((got == values(5 - side, n)).all(), True, "data of a matched message")

    turns(send, receive_matched)
    message = other.Mprobe(MPI.PROC_NULL)
    message.Recv(np.empty(1))


def exchange():
    got = np.empty(100)
    other.Sendrecv(values(side + 6, 100), dest=peer, recvbuf=got, source=peer)
    same((got == values(7 - side, 100)).all(), True, "data of Sendrecv")
    # Every third value of one array into every second of another.
    third = MPI.DOUBLE.Create_vector(10, 1, 3).Commit()
    second = MPI.DOUBLE.Create_vector(10, 1, 2).Commit()
    out, back = values(side + 8, 30), np.zeros(20)
    other.Sendrecv([out, 1, third], dest=peer, recvbuf=[back, 1, second], source=peer)
    same((back[::2] == values(9 - side, 30)[::3]).all(), True, "data of a vector")
    third.Free()
    second.Free()


def errors():
    nothing = np.empty(0)
    fails(MPI.ERR_RANK, other.Send, nothing, dest=other.remote_size)
    fails(MPI.ERR_TAG, other.Send, nothing, dest=peer, tag=-5)
    fails(MPI.ERR_COMM, other.allreduce, 1)

    def send():
        other.Send(values(side, 10), dest=peer, tag=3)

    def receive():
        fails(MPI.ERR_TRUNCATE, other.Recv, np.empty(4), source=peer, tag=3)

    turns(send, receive)
    fails(MPI.ERR_ARG, mpi_connect.register, "", world)
    fails(MPI.ERR_ARG, mpi_connect.register, "a\0b", world)
    fails(MPI.ERR_ARG, mpi_connect.remove, name)
    fails(MPI.ERR_ARG, mpi_connect.intercomm_create, name, "nobody")
    fails(MPI.ERR_COMM, mpi_connect.register, mine, MPI.COMM_NULL)
    fails(MPI.ERR_COMM, mpi_connect.register, mine, other)
    same(mpi_connect.error_class(mpi_connect.PEER_GONE) == mpi_connect.error_class(mpi_connect.TIMEOUT), False, "classes")


def files():
    """Of the other job, which makes no call."""
    folder = Path(os.environ["MPI_CONNECT_TEST_DIR"])
    mpi_connect.putfile(other, folder / "open" / "sent", f"put-{mine}")
    mpi_connect.getfile(other, f"put-{mine}", folder / f"got-{mine}")
    same((folder / f"got-{mine}").read_text(), "sent", "a file")
    fails(MPI.ERR_NO_SUCH_FILE, mpi_connect.getfile, other, "nothing", folder)
    fails(MPI.ERR_ACCESS, mpi_connect.getfile, other, "../key", folder)
    fails(MPI.ERR_COMM, mpi_connect.getfile, world, "sent", folder)


def objects():
    """Pickled objects: between Python jobs only."""
    big = {"name": "ice", "data": list(range(50000)), "array": np.arange(5)}

    def send():
        other.send(big, dest=peer, tag=1)
        other.ssend("small", dest=peer, tag=2)

    def receive():
        status = MPI.Status()
        got = other.recv(source=MPI.ANY_SOURCE, tag=1, status=status)
        same((status.source, got["name"], len(got["data"]), got["array"].sum()), (peer, "ice", 50000, 10), "an object")
        same(other.recv(source=peer), "small", "a small object")

    turns(send, receive)
    request = other.isend([side], dest=peer, tag=4)
    same(other.irecv(source=peer, tag=4).wait(), [1 - side], "an object by irecv")
    request.wait()
    same(other.sendrecv(side, dest=peer, source=peer), 1 - side, "an object by sendrecv")
    turns(
        lambda: other.send("matched", dest=peer),
        lambda: same(other.mprobe(source=peer).recv(), "matched", "a matched object"),
    )


def checkpoints():
    """Of a job that is joined with no other: what is refused, and what comes back."""
    folder = Path(sys.argv[5])
    own = mpi_connect.register(mine, world)
    fails(MPI.ERR_ARG, own.checkpoint, folder, "before a restart")
    fails(MPI.ERR_ARG, own.restart, "")
    fails(MPI.ERR_ARG, own.restart, "a\0b")
    fails(MPI.ERR_ARG, own.restart, "x" * 4096)
    same(own.restart(folder), (None, []), "a first run")
    fails(MPI.ERR_ARG, own.restart, folder)
    fails(MPI.ERR_ARG, own.checkpoint, "", "x")
    fails(MPI.ERR_ARG, own.checkpoint, folder, "x" * 256)
    fails(MPI.ERR_ARG, own.checkpoint, folder, "a\0b")
    fails(MPI.ERR_ARG, own.checkpoint, folder, "a\udc80b")
    fails(MPI.ERR_OTHER, own.checkpoint, __file__, "x")
    for label in ["étape 1200", "x" * 255]:
        own.checkpoint(str(folder), label)
        mpi_connect.remove(own)
        # As if the job had been started again.
        own = mpi_connect.register(mine, world)
        same(own.restart(str(folder)), (label, []), "what comes back")
    mpi_connect.remove(own)
    fails(MPI.ERR_ARG, own.checkpoint, folder, "x")
    fails(MPI.ERR_ARG, own.restart, folder)


mine, theirs, side, kind = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
kit.label = mine
peer = world.rank

with mpi_connect.register(mine, world) as name:
    same((name.name, name.registered), (mine, True), "the handle")
    other = mpi_connect.intercomm_create(name, theirs)
same(name.registered, False, "the handle, removed")
same(type(other), MPI.Intercomm, "the type")
same((other.is_inter, other.rank, other.size), (True, world.rank, world.size), "the local side")
same((other.remote_size, other.remote_group.size), (world.size, world.size), "the remote side")

for section in [blocking, nonblocking, probes, files, exchange, errors] + [objects] * (kind == "python"):
    section()
other.Free()
same(other == MPI.COMM_NULL, True, "freed")
checkpoints()

kit.end()
