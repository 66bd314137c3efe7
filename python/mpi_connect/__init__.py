"""Joins MPI jobs that were started apart, even under different MPI implementations.

    from mpi4py import MPI
    import mpi_connect

    with mpi_connect.register("air", MPI.COMM_WORLD) as air:
        ocean = mpi_connect.intercomm_create(air, "ocean")
    ocean.Send(heat, dest=0)

The other job does the same with the names swapped, in Python, C, C++ or Fortran. What comes back is an ordinary
``mpi4py.MPI.Intercomm``. All calls are collective over the communicator that was registered.

The library ``libmpi_connect.so`` must be preloaded: start the job by ``mpi-connect run -- mpirun ...``. Without it the
first call raises :class:`NotPreloaded`.

Errors are those of mpi4py: :class:`mpi4py.MPI.Exception`, if the communicator's error handler returns
(``MPI.ERRORS_RETURN``, which mpi4py sets on ``COMM_WORLD`` and ``COMM_SELF``).

Importing this module does not initialize MPI; the first call imports mpi4py, which does.
"""

from __future__ import annotations

import ctypes
import os
import threading
from functools import lru_cache
from types import TracebackType
from typing import TYPE_CHECKING

from ._installed import get_include, get_library

if TYPE_CHECKING:
    from collections.abc import Callable

    from mpi4py import MPI

__version__ = "0.1.0"

__all__ = [
    "DIED",
    "JOINED",
    "LEFT",
    "PEER_GONE",
    "TIMEOUT",
    "Handle",
    "NotPreloaded",
    "Notice",
    "__version__",
    "error_class",
    "get_include",
    "get_library",
    "getfile",
    "hold",
    "intercomm_create",
    "notify",
    "putfile",
    "register",
    "remove",
    "resume",
]

#: A process of the other job has died, or has finalized: for :func:`error_class`.
PEER_GONE = 1
#: The other job did not come within ``MPI_CONNECT_TIMEOUT`` seconds: for :func:`error_class`.
TIMEOUT = 2

#: A job has registered the name: an event of :func:`notify`.
JOINED = 1
#: It has given the name back, or finalized: an event of :func:`notify`.
LEFT = 2
#: It has died, or cannot be heard any more: an event of :func:`notify`.
DIED = 4

#: The room for a label with its terminator, as in the C header.
_MAX_LABEL = 256
#: More inter-communicators than a job has.
_MAX_COMMS = 65536


@lru_cache(maxsize=None)
def _comm_type() -> type[ctypes.c_uint32] | type[ctypes.c_uint64]:
    """An MPI_Comm as the C calls take it: an int under the MPICH family, a pointer under the others."""
    from mpi4py import MPI

    return ctypes.c_uint32 if MPI._sizeof(MPI.Comm) == 4 else ctypes.c_uint64


def _arguments(name: str) -> list[type]:
    comm, text, number = _comm_type(), ctypes.c_char_p, ctypes.c_int
    return {
        "MPI_Conn_register": [text, comm, ctypes.POINTER(number)],
        "MPI_Conn_intercomm_create": [number, text, ctypes.POINTER(comm)],
        "MPI_Conn_remove": [number],
        "MPI_Conn_notify": [text, number, _Function, ctypes.c_void_p, ctypes.POINTER(number)],
        "MPI_Conn_notify_cancel": [number],
        "MPI_Conn_hold": [],
        "MPI_Conn_resume": [],
        "MPI_Conn_checkpoint": [number, text, text],
        "MPI_Conn_restart": [number, text, text, number, ctypes.POINTER(comm), ctypes.POINTER(number)],
        "MPI_Conn_getfile": [comm, text, text],
        "MPI_Conn_putfile": [comm, text, text],
        "MPI_Conn_error_class": [number, ctypes.POINTER(number)],
    }[name]


#: What the library calls, in a thread of its own.
_Function = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)
#: Those that may still be called.
_called: dict[int, object] = {}


class NotPreloaded(RuntimeError):
    """``libmpi_connect.so`` is not in front of this process's MPI."""


class Handle:
    """A registered name. As a context manager it gives the name back at the end of the block, and so does
    :func:`remove`; inter-communicators made with it stay."""

    def __init__(self, name: str, number: int) -> None:
        self._name = name
        self._number = number
        self._registered = True

    @property
    def name(self) -> str:
        """The name under which this job is registered."""
        return self._name

    @property
    def registered(self) -> bool:
        """Whether the name has not been given back yet."""
        return self._registered

    def restart(self, directory: str | os.PathLike[str]) -> tuple[str | None, list[MPI.Intercomm]]:
        """Goes on from the newest checkpoints in `directory` that all joined jobs have. Comes directly behind
        :func:`register`, in a first run too, and before :func:`intercomm_create`.

            label, comms = air.restart("checkpoints")
            if label is None:                                   # a first run
                ocean = mpi_connect.intercomm_create(air, "ocean")
            else:                                               # for example "step-1200"
                [ocean] = comms
                read_own_state(label)

        Collective over the communicator of the handle. Waits at most ``MPI_CONNECT_TIMEOUT`` seconds for the other jobs,
        which restart too, each with as many ranks as before.

        Returns the label of the checkpoint and its inter-communicators, in the order in which they were made; in a first
        run ``None`` and an empty list. The messages that were on their way are received as if nothing had been.
        An empty label without any inter-communicator cannot be told from a first run.

        Raises ``MPI.Exception`` with class ``MPI.ERR_ARG`` if it comes too late or the directory's name is no good,
        ``MPI.ERR_OTHER`` if the checkpoints cannot be used, ``error_class(TIMEOUT)`` if a job does not come.
        """
        from mpi4py import MPI

        folder = _path("directory", directory)
        label = ctypes.create_string_buffer(_MAX_LABEL)
        comms = (_comm_type() * _MAX_COMMS)()
        count = ctypes.c_int(0)
        _call("MPI_Conn_restart", self._number, folder, label, _MAX_COMMS, comms, ctypes.byref(count))
        found = [MPI.Intercomm.fromhandle(comm) for comm in comms[: count.value]]
        return label.value.decode() if found or label.value else None, found

    def checkpoint(self, directory: str | os.PathLike[str], label: str) -> None:
        """Makes a checkpoint of what concerns messages between this job and others. The program writes its own state
        beside it, before this call, under a name that it finds again by `label`.

        Collective over the communicator of the handle, on which :meth:`restart` was called; it waits for no other job.

        directory
            A folder that all ranks reach. That of rank 0 counts, and so does its label.
        label
            Up to 255 bytes of UTF-8 without control characters, which :meth:`restart` gives back.

        The messages inside this job are over at the call, and what follows it is deterministic until the other jobs have
        made theirs: what the program owes is in ``docs/checkpoints.md``.

        Raises ``MPI.Exception`` with class ``MPI.ERR_ARG`` if an argument is no good or :meth:`restart` was not called,
        ``MPI.ERR_OTHER`` if the directory cannot be written, or an earlier checkpoint could not.
        """
        _check("label", label, str)
        _call("MPI_Conn_checkpoint", self._number, _path("directory", directory), _text(label))

    def __enter__(self) -> Handle:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # Collective: an exception on one rank alone must not make that rank wait for the others.
        if self.registered and kind is None:
            remove(self)

    def __repr__(self) -> str:
        return f"<mpi_connect.Handle {self._name!r}{'' if self.registered else ', removed'}>"


def register(name: str, comm: MPI.Intracomm) -> Handle:
    """Registers this job under `name`, which the other job asks for.

    Collective over `comm`: its ranks are the ones that the other job will see.

    name
        1 to 255 bytes of UTF-8 without control characters, the same on all ranks.
    comm
        An intra-communicator.

    Raises ``MPI.Exception`` with class ``MPI.ERR_NAME`` if a living job holds the name, ``MPI.ERR_ARG`` if the name is
    no good, ``MPI.ERR_COMM`` if `comm` is none.
    """
    from mpi4py import MPI

    _check("name", name, str)
    _check("comm", comm, MPI.Comm)
    number = ctypes.c_int(0)
    # A name that cannot be passed on still takes part in the collective call, which fails for all alike.
    _call("MPI_Conn_register", _text(name), MPI._handleof(comm), ctypes.byref(number))
    return Handle(name, number.value)


def intercomm_create(handle: Handle, remote_name: str) -> MPI.Intercomm:
    """Joins the job that registered `remote_name` and that asks for ours.

    Collective over the communicator of `handle`. Waits until the other job comes, for at most ``MPI_CONNECT_TIMEOUT``
    seconds (600 unless set).

    Raises ``MPI.Exception`` with class ``error_class(TIMEOUT)`` if it does not come, ``error_class(PEER_GONE)`` if it
    dies meanwhile.
    """
    from mpi4py import MPI

    _check("handle", handle, Handle)
    _check("remote_name", remote_name, str)
    comm = _comm_type()(MPI._handleof(MPI.COMM_NULL))
    _call("MPI_Conn_intercomm_create", handle._number, _text(remote_name), ctypes.byref(comm))
    return MPI.Intercomm.fromhandle(comm.value)


def remove(handle: Handle) -> None:
    """Gives the name back. Inter-communicators made with `handle` stay.

    Collective over the communicator of `handle`. Raises ``MPI.Exception`` with class ``MPI.ERR_ARG`` if the name has
    been given back already.
    """
    _check("handle", handle, Handle)
    handle._registered = False
    _call("MPI_Conn_remove", handle._number)


class Notice:
    """What :func:`notify` has registered. As a context manager it is cancelled at the end of the block."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._is_over = False

    def cancel(self) -> None:
        """When this returns, the function does not run and is not called any more; within the function itself it may be
        called too. Once more does nothing."""
        if not self._is_over:
            self._is_over = True
            _call("MPI_Conn_notify_cancel", self._number)
        if threading.get_ident() != _calling:
            _called.pop(self._number, None)

    def __enter__(self) -> Notice:
        return self

    def __exit__(self, *exception: object) -> None:
        self.cancel()


#: The thread that is in a function of :func:`notify`.
_calling: int | None = None


def notify(pattern: str, function: Callable[[int, str], object], events: int = JOINED | LEFT | DIED) -> Notice:
    """Has ``function(event, name)`` called when a job registers a name, gives it back, or dies.

        def told(event, name):
            print(name, {mpi_connect.JOINED: "joined", mpi_connect.LEFT: "left", mpi_connect.DIED: "died"}[event])

        with mpi_connect.notify("urn:site:*", told):
            ...

    pattern
        Names that begin so or, with a ``*`` in it, are so from end to end; ``""`` for all. They are those of this
        process's run, this job's own too. Jobs that are there already are told of as joined.
    function
        It is called by a thread of the library, one call after the other. It calls nothing of MPI unless the level of
        threads is ``MPI.THREAD_MULTIPLE``. What it raises is printed.
    events
        Those that are wanted: :data:`JOINED`, :data:`LEFT`, :data:`DIED`, with ``|`` between.

    Local. Raises ``MPI.Exception`` with class ``MPI.ERR_ARG`` if an argument is no good, ``MPI.ERR_NAME`` if the naming
    service cannot be used.
    """
    _check("pattern", pattern, str)

    def call(event: int, name: bytes, _state: object) -> None:
        global _calling
        _calling = threading.get_ident()
        try:
            function(event, name.decode())
        finally:
            _calling = None

    called = _Function(call)
    number = ctypes.c_int(0)
    _call("MPI_Conn_notify", _text(pattern), events, called, None, ctypes.byref(number))
    _called[number.value] = called
    return Notice(number.value)


def getfile(comm: MPI.Intercomm, path: str | os.PathLike[str], local_path: str | os.PathLike[str]) -> None:
    """Fetches a file of another job, whose processes make no call.

    Collective over the local group of `comm`; the paths of rank 0 count. Messages go on meanwhile.

    comm
        An inter-communicator to that job.
    path
        Below a folder that the other job has opened (``MPI_CONNECT_FILES``).
    local_path
        A file, which is replaced when all of it is there, or a folder.

    Raises ``MPI.Exception`` with class ``MPI.ERR_NO_SUCH_FILE``, ``MPI.ERR_ACCESS`` if no open folder has it,
    ``MPI.ERR_NO_SPACE``, ``MPI.ERR_FILE_IN_USE`` if it changes meanwhile, ``error_class(PEER_GONE)`` if the job dies;
    all are in ``docs/files.md``.
    """
    from mpi4py import MPI

    _check("comm", comm, MPI.Comm)
    _call("MPI_Conn_getfile", MPI._handleof(comm), _path("path", path), _path("local_path", local_path))


def putfile(comm: MPI.Intercomm, local_path: str | os.PathLike[str], path: str | os.PathLike[str]) -> None:
    """Puts a file into a folder of another job, as :func:`getfile` the other way. Raises ``MPI.Exception`` with class
    ``MPI.ERR_READ_ONLY`` if the folder is open for reading alone."""
    from mpi4py import MPI

    _check("comm", comm, MPI.Comm)
    _call("MPI_Conn_putfile", MPI._handleof(comm), _path("local_path", local_path), _path("path", path))


def hold() -> None:
    """Gives up all connections of this process to other jobs, until :func:`resume`: for whoever moves its virtual
    machine or makes an image of the process.

    Local. Returns when none is left, after 10 s at most. Sends and receives may be called meanwhile: nothing fails, and
    what needs the other job waits.
    """
    _call("MPI_Conn_hold")


def resume() -> None:
    """Connects again after :func:`hold`, also if this process has another address now. Local; returns at once."""
    _call("MPI_Conn_resume")


def error_class(kind: int) -> int:
    """The MPI error class of :data:`PEER_GONE` or :data:`TIMEOUT`, to compare with
    ``MPI.Exception.Get_error_class()``. Classes are made at run time, so they may differ between processes."""
    found = ctypes.c_int(0)
    _call("MPI_Conn_error_class", kind, ctypes.byref(found))
    return found.value


def _check(argument: str, value: object, kind: type) -> None:
    if not isinstance(value, kind):
        raise TypeError(f"{argument} must be {kind.__qualname__}, not {type(value).__qualname__}")


def _text(text: str) -> bytes:
    # C ends at a null byte; the library refuses what is not UTF-8, so that stands in for it.
    return text.encode(errors="surrogatepass").replace(b"\0", b"\xff")


def _path(argument: str, value: str | os.PathLike[str]) -> bytes:
    path = os.fspath(value) if isinstance(value, os.PathLike) else value
    if not isinstance(path, str):
        raise TypeError(f"{argument} must be str or os.PathLike[str], not {type(value).__qualname__}")
    return _text(path)


def _call(name: str, *arguments: object) -> None:
    from mpi4py import MPI

    try:
        function = getattr(ctypes.CDLL(None), name)
    except AttributeError:
        raise NotPreloaded(
            "libmpi_connect.so is not loaded: start the job by `mpi-connect run -- mpirun -n 4 python ...`"
        ) from None
    function.argtypes = _arguments(name)
    code = function(*arguments)
    if code != MPI.SUCCESS:
        raise MPI.Exception(code)
