"""What a wheel has beside the module: the command, the library and the headers. A package installed from the sources
has the module alone."""

from __future__ import annotations

import os
import sys
from pathlib import Path

_FOLDER = Path(__file__).resolve().parent


def get_library() -> str:
    """The path of the library that came with this module, for ``LD_PRELOAD`` or the linker.

    Raises ``FileNotFoundError`` if the module was installed without it.
    """
    return _part("lib/libmpi_connect.so.0")


def get_include() -> str:
    """The folder of the headers and Fortran sources that came with this module.

    Raises ``FileNotFoundError`` if the module was installed without them.
    """
    return _part("include")


def command() -> None:
    """``mpi-connect``: this process becomes the command that came with this module."""
    try:
        program = _part("bin/mpi-connect")
    except FileNotFoundError as e:
        sys.exit(f"mpi-connect: {e}")
    os.execv(program, ["mpi-connect", *sys.argv[1:]])


def _part(name: str) -> str:
    path = _FOLDER / name
    if not path.exists():
        raise FileNotFoundError(f"there is no {path}: only the wheel has it; see `make install` for the rest")
    return str(path)
