"""What the module says without the library. FOLDER is where the module was installed.

    alone.py FOLDER
"""

import sys

sys.path.insert(0, sys.argv[1])

from mpi4py import MPI  # noqa: E402

import mpi_connect  # noqa: E402

assert mpi_connect.__file__.startswith(sys.argv[1]), mpi_connect.__file__
try:
    mpi_connect.register("air", MPI.COMM_WORLD)
except mpi_connect.NotPreloaded as e:
    print(e)
