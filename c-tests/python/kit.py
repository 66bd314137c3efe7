"""What the programs that check values have in common, as c-tests/c/kit.h for C: each check is counted, each failure told."""

import sys

from mpi4py import MPI

world = MPI.COMM_WORLD
# What the program calls itself; it sets that before its first check.
label = None
checks = 0
failures = 0


def same(got, want, what):
    global checks, failures
    checks += 1
    if got != want:
        failures += 1
        print(f"FAIL {label} rank {world.rank}: {what} is {got!r}, not {want!r}", flush=True)


def fails(error_class, call, *args, **kwargs):
    """The call must raise this class."""
    try:
        call(*args, **kwargs)
    except MPI.Exception as e:
        same(e.Get_error_class(), error_class, call.__name__)
    else:
        same("nothing", error_class, call.__name__)


def end():
    """Tells what all ranks have counted, and ends the program."""
    everywhere = [world.reduce(n) or 0 for n in (checks, failures)]
    if world.rank == 0:
        print(f"DONE {label} checks {everywhere[0]} failures {everywhere[1]}", flush=True)
    sys.exit(bool(everywhere[1]))
