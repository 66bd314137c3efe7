"""`spawning.py parent MANIFEST`, with children of any kind; or a child itself."""

import sys
import threading

import kit
from kit import MPI, end, fails, same, world

import mpi_connect

kit.label = sys.argv[1]


def exchange(inter, side):
    everybody = [inter.isend((side, world.rank), k, 5) for k in range(inter.remote_size)]
    for k in range(inter.remote_size):
        same(inter.recv(source=k, tag=5), (1 - side, k), "a message")
    MPI.Request.waitall(everybody)


if sys.argv[1] == "child":
    inter = MPI.Comm.Get_parent()
    same(inter == MPI.COMM_NULL, False, "no parent")
    exchange(inter, 1)
    inter.Disconnect()
    same(MPI.Comm.Get_parent() == MPI.COMM_NULL, True, "the parent afterwards")
    end()

info = MPI.Info.Create({"mpi_connect_manifest": sys.argv[2], "mpi_connect_job": "python"})
codes = [-7, -7]
inter = world.Spawn("", args=["child"], maxprocs=2, info=info, errcodes=codes)
same(codes, [MPI.SUCCESS] * 2, "the codes")
same(inter.remote_size, 2, "the children")
exchange(inter, 0)
inter.Disconnect()
inter = world.Spawn_multiple(["", ""], args=None, maxprocs=[1, 1], info=[info, info])
same(inter.remote_size, 2, "the children of two commands")
exchange(inter, 0)
inter.Disconnect()
fails(MPI.ERR_SPAWN, world.Spawn, "./no-such", maxprocs=1, info=info)

told, seen = [], threading.Event()


def tell(event, name):
    told.append((event, name))
    seen.set()


handle = mpi_connect.register("snake", world)
with mpi_connect.notify("sna*", tell) as notice:
    same(seen.wait(30), True, "told")
    same(told, [(mpi_connect.JOINED, "snake")], "what was told")
notice.cancel()
fails(MPI.ERR_ARG, mpi_connect.notify, "x", tell, 0)
world.Barrier()
mpi_connect.remove(handle)
end()
