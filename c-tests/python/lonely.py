"""Waits for a job that does not come."""

from mpi4py import MPI

import mpi_connect

with mpi_connect.register("air", MPI.COMM_WORLD) as air:
    try:
        mpi_connect.intercomm_create(air, "nobody")
    except MPI.Exception as e:
        if e.Get_error_class() == mpi_connect.error_class(mpi_connect.TIMEOUT):
            print("TIMEOUT", e, flush=True)
