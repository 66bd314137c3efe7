"""ADIOS2 SST from its Python package: so many writers, each with a reader of its own, since the package is built without MPI.
    sst.py PAIRS FOLDER
All processes are forks of one that has the module, and begin at once. Prints the seconds until the last stream was open, and
until the last reader had a word; and the most descriptors and threads of a process."""

import json
import os
import sys
import time

import adios2
import numpy as np

pairs, folder = int(sys.argv[1]), sys.argv[2]
go = os.path.join(folder, "go")


def stream(number, mode, told):
    io = adios2.Adios().declare_io(f"io{number}")
    io.set_engine("SST")
    io.set_parameters({"OpenTimeoutSecs": "600", "RendezvousReaderCount": "1", "QueueLimit": "1"})
    before = [len(os.listdir(f"/proc/self/{what}")) for what in ("fd", "task")]
    while not os.path.exists(go):
        time.sleep(0.01)
    name = os.path.join(folder, f"s{number}")
    word = np.array([number], dtype=np.int64)
    if mode == "w":
        variable = io.define_variable("word", word, [1], [0], [1])
        engine = io.open(name, adios2.bindings.Mode.Write)
        opened = time.monotonic()
        engine.begin_step()
        engine.put(variable, word, adios2.bindings.Mode.Sync)
        engine.end_step()
    else:
        engine = io.open(name, adios2.bindings.Mode.Read)
        opened = time.monotonic()
        engine.begin_step()
        got = np.zeros(1, dtype=np.int64)
        engine.get(io.inquire_variable("word"), got, adios2.bindings.Mode.Sync)
        engine.end_step()
        assert got[0] == number
    ended = time.monotonic()
    after = [len(os.listdir(f"/proc/self/{what}")) for what in ("fd", "task")]
    os.write(told, (json.dumps([opened, ended, after[0] - before[0], after[1] - before[1]]) + "\n").encode())
    engine.close()


reads, told = os.pipe()
children = []
for number in range(pairs):
    for mode in "wr":
        child = os.fork()
        if child == 0:
            try:
                stream(number, mode, told)
                os._exit(0)
            except BaseException as e:
                print(f"{mode}{number}: {e}", file=sys.stderr)
                os._exit(1)
        children.append(child)
os.close(told)
time.sleep(3)
start = time.monotonic()
open(go, "w").close()
with os.fdopen(reads) as lines:
    rows = [json.loads(line) for line in lines]
failed = sum(os.waitpid(child, 0)[1] != 0 for child in children)
if failed or len(rows) != 2 * pairs:
    sys.exit(f"{failed} of {2 * pairs} processes failed, {len(rows)} were done")
figures = [max(row[k] for row in rows) - (start if k < 2 else 0) for k in range(4)]
for row, unit, figure in zip(("joined", "first word", "descriptors", "threads"), ("s", "s", "", ""), figures):
    print("BENCH", json.dumps({"row": row, "how": "max", "unit": unit, "figure": figure}))
