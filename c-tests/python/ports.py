"""One of two jobs that meet at a port of MPI's own, and know nothing of the library.

    ports.py server|client SERVICE
"""

import os
import socket
import sys
import time

import kit
import numpy as np
from kit import fails, same, world
from mpi4py import MPI


def looked_up(name):
    while True:
        try:
            return MPI.Lookup_name(name)
        except MPI.Exception as e:
            if e.Get_error_class() != MPI.ERR_NAME:
                raise
            time.sleep(0.01)


def use(inter, theirs):
    same((type(inter), inter.remote_size), (MPI.Intercomm, theirs), "the inter-communicator")
    out, back = np.arange(50000.0) + 7, np.zeros(50000)
    peer = inter.rank
    if peer < inter.remote_size and inter.rank < inter.remote_size:
        inter.Sendrecv(out, dest=peer, recvbuf=back, source=peer)
        same((back == out).all(), True, "data")
        same(inter.sendrecv({"from": role}, dest=peer, source=peer)["from"], other, "an object")
    for turn, name in enumerate(["server", "client"]):
        values = np.full(1000, float(turn + 1)) if role == name else np.zeros(1000)
        root = 0 if role != name else MPI.ROOT if inter.rank == 0 else MPI.PROC_NULL
        inter.Bcast(values, root)
        same((values == turn + 1).all(), True, "what was broadcast")
        text = inter.bcast(["said by", name] if role == name and inter.rank == 0 else None, root)
        same(text, None if role == name else ["said by", name], "an object that was broadcast")
    inter.Barrier()


def joined():
    """Rank 0 of either job, with a socket between them."""
    path = os.path.join(os.environ["MPI_CONNECT_TEST_DIR"], "socket")
    if role == "server":
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(path + "-draft")
            listener.listen()
            os.rename(path + "-draft", path)
            end, _ = listener.accept()
    else:
        end = socket.socket(socket.AF_UNIX)
        while not os.path.exists(path):
            time.sleep(0.01)
        end.connect(path)
    with end:
        inter = MPI.Comm.Join(end.fileno())
        use(inter, 1)
        inter.Disconnect()
        end.sendall(b"mine")
        same(end.recv(4), b"mine", "the socket")


role, service = sys.argv[1:3]
other = "client" if role == "server" else "server"
kit.label = role
world.Set_errhandler(MPI.ERRORS_RETURN)

port = None
if world.rank == 0:
    fails(MPI.ERR_NAME, MPI.Lookup_name, service + " that is not")
    if role == "server":
        port = MPI.Open_port()
        info = MPI.Info.Create()
        info["kind"] = "python"
        MPI.Publish_name(service, port, info)
        info.Free()
        same(MPI.Lookup_name(service), port, "what was looked up")
    else:
        port = looked_up(service)
for _ in range(2):
    # Only rank 0 has the port.
    inter = world.Accept(port) if role == "server" else world.Connect(port, root=0)
    use(inter, world.size)
    inter.Disconnect()
    same(inter == MPI.COMM_NULL, True, "parted")
if world.rank == 0:
    if role == "server":
        MPI.Unpublish_name(service, port)
        MPI.Close_port(port)
    joined()

kit.end()
