"""The air: sends the heat at its surface to the ocean, and gets the ocean's temperature."""

import numpy as np
from mpi4py import MPI

import mpi_connect

world = MPI.COMM_WORLD
with mpi_connect.register("air", world) as air:  # our name, given back at the end of the block
    ocean = mpi_connect.intercomm_create(air, "ocean")  # waits for the other job

temperature = np.full(100, 10.0)
for step in range(10):
    heat = 20 - temperature
    ocean.Sendrecv(heat, dest=world.rank, recvbuf=temperature, source=world.rank)

print(f"air {world.rank}: the ocean has {temperature[0]:.3f} degrees", flush=True)
ocean.Free()
