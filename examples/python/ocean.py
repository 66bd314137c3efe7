"""The ocean: is warmed by the heat from the air, and sends its temperature."""

import numpy as np
from mpi4py import MPI

import mpi_connect

world = MPI.COMM_WORLD
with mpi_connect.register("ocean", world) as ocean:
    air = mpi_connect.intercomm_create(ocean, "air")

heat = np.empty(100)
temperature = np.full(100, 10.0)
for step in range(10):
    air.Recv(heat, source=world.rank)
    temperature += 0.25 * heat
    air.Send(temperature, dest=world.rank)

print(f"ocean {world.rank}: {temperature[0]:.3f} degrees", flush=True)
air.Free()
