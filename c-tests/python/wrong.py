"""What arguments of wrong types raise: before the call is collective, so each rank is told alone."""

from mpi4py import MPI

import mpi_connect


def refused(argument, call, *arguments):
    try:
        call(*arguments)
    except TypeError as e:
        assert str(e).startswith(f"{argument} must be "), e
    else:
        raise AssertionError(f"{arguments} was taken")


world = MPI.COMM_WORLD
with mpi_connect.register("air", world) as air:
    refused("name", mpi_connect.register, 5, world)
    refused("name", mpi_connect.register, b"x", world)
    refused("comm", mpi_connect.register, "x", 5)
    refused("comm", mpi_connect.register, "x", None)
    refused("handle", mpi_connect.intercomm_create, 3, "u")
    refused("remote_name", mpi_connect.intercomm_create, air, 3)
    refused("handle", mpi_connect.remove, 3)
    refused("directory", air.restart, 3)
    refused("directory", air.restart, b"x")
    refused("directory", air.checkpoint, None, "x")
    refused("label", air.checkpoint, "x", b"x")
    refused("label", air.checkpoint, "x", None)
    assert air.registered
print("REFUSED on", world.rank, flush=True)
