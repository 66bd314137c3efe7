"""A model that is coupled with another one, writes its state now and then, and goes on from there when it is started again.

    restarted.py MINE THEIRS FOLDER STEPS EVERY [STOP]

In each step a rank sends a part of its numbers to every rank of the other job, which may have another number of them, and
takes in what these have sent LAG steps earlier; so messages are always on their way. All that is computed depends on all that
was received, and the result is told at the end. At the step STOP the job stands still until it is killed.
"""

import hashlib
import sys
from pathlib import Path

import kit
import numpy as np
from kit import same, world
from mpi4py import MPI

import mpi_connect

LAG = 2
# The first are sent eagerly, the last by a rendezvous.
AMOUNTS = [1, 7, 64, 1000, 3, 9000, 0, 30000]


def amount(step, sender, receiver, twin):
    return AMOUNTS[(step + 3 * sender + 5 * receiver + twin) % len(AMOUNTS)]


def state(label):
    """The program's own file of a label."""
    return folder / f"{mine}-{world.rank}-{label}.npz"


mine, theirs, folder = sys.argv[1], sys.argv[2], Path(sys.argv[3])
steps, every = int(sys.argv[4]), int(sys.argv[5])
stop = int(sys.argv[6]) if len(sys.argv) > 6 else None
kit.label = mine

own = mpi_connect.register(mine, world)
label, comms = own.restart(folder)
if label is None:
    same(comms, [], "inter-communicators of a first run")
    other = mpi_connect.intercomm_create(own, theirs)
    comms = [other, other.Dup()]
    begin, x = 0, 1 / (1 + np.arange(48.0) + 10 * world.rank + len(mine))
else:
    same((type(label), [type(comm) for comm in comms]), (str, [MPI.Intercomm] * 2), "what comes back")
    with np.load(state(label)) as file:
        begin, x = int(file["step"]), file["x"]
    same(label, f"step-{begin}", "the label")
if world.rank == 0:
    print("FROM", begin, flush=True)

sends = {}
for step in range(begin, steps + LAG):
    if step % every == 0 and step > begin:
        np.savez(state(f"step-{step}"), step=step, x=x)
        own.checkpoint(folder, f"step-{step}")
    if step == stop:
        print("STANDS", flush=True)
        comms[0].Recv(np.empty(1), source=0, tag=steps + LAG)
    lines = [(peer, twin) for peer in range(comms[0].remote_size) for twin in range(2)]
    for peer, twin in lines if step < steps else []:
        out = np.resize(np.roll(x, step), amount(step, world.rank, peer, twin))
        send = comms[twin].Issend if step % 5 == 0 else comms[twin].Isend
        sends[step, peer, twin] = send(out, dest=peer, tag=step)
        if old := sends.pop((step - LAG - 1, peer, twin), None):
            old.Wait()
    for peer, twin in lines if step >= LAG else []:
        got = np.empty(amount(step - LAG, peer, world.rank, twin))
        status = MPI.Status()
        comms[twin].Recv(got, source=peer, tag=step - LAG, status=status)
        same(status.Get_count(MPI.DOUBLE), len(got), "numbers")
        x = x * 0.75 + np.resize(got, 48) / (2 + np.arange(48)) + 0.125 if len(got) else x
    largest = np.empty(48)
    world.Allreduce(x, largest, op=MPI.MAX)
    x = x + 0.0625 * largest
    x = np.where(x > 10, x * 0.1, x)
MPI.Request.Waitall(list(sends.values()))
print("RESULT", world.rank, hashlib.sha256(x.tobytes()).hexdigest()[:16], flush=True)
for comm in comms:
    comm.Free()
mpi_connect.remove(own)
kit.end()
