"""One half of a coupled pair: pair.py MINE THEIRS. Each rank exchanges a message with its
counterpart and looks at it."""

import sys
from array import array

import mpi_connect
from mpi4py import MPI

mine, theirs = sys.argv[1:]
world = MPI.COMM_WORLD
with mpi_connect.register(mine, world) as handle:
    other = mpi_connect.intercomm_create(handle, theirs)
heat = array("d", [ord(mine[0]) * 1000.0 + world.rank * 100.0 + i for i in range(100)])
got = array("d", [0.0]) * 100
other.Sendrecv(heat, dest=world.rank, recvbuf=got, source=world.rank)
want = array("d", [ord(theirs[0]) * 1000.0 + world.rank * 100.0 + i for i in range(100)])
if got != want or other.remote_size != world.size:
    sys.exit(f"{mine} rank {world.rank} got {got[:3]}..., from {other.remote_size} ranks")
other.Free()
if world.rank == 0:
    library = MPI.Get_library_version().split("\n")[0].split(",")[0].strip()
    print(f"{mine} joined {theirs}, {world.size} ranks each; mpi_connect {mpi_connect.__version__}; {library}")
