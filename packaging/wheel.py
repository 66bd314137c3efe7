#!/usr/bin/env python3
"""Makes the Python wheel: the module of python/, and beside it what `make install` has put into a folder.

    wheel.py TREE OUT

TREE has bin, lib and include; they become parts of the package `mpi_connect`. OUT is the folder for the wheel. A wheel
has no links, so the library is there under one name, the one that programs ask for when they run.
"""

import base64
import hashlib
import re
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TAG = "py3-none-manylinux_2_28_x86_64"
LIBRARY = "libmpi_connect.so"


def field(name, text):
    """A line `name = "value"` of a TOML or Python file."""
    found = re.search(rf'^{name} = "(.*)"$', text, re.MULTILINE)
    if not found:
        sys.exit(f"wheel.py: no {name} found")
    return found[1]


def parts(tree):
    """What goes into the package from the tree: (name, bytes, whether it is a program)."""
    for path in sorted(p for p in tree.rglob("*") if p.is_file() and p.relative_to(tree).parts[0] != "share"):
        name, content = str(path.relative_to(tree)), path.read_bytes()
        if path.name.startswith(LIBRARY) and path.name != f"{LIBRARY}.0":
            continue
        if path.suffix == ".pc":
            content = content.replace(b"-lmpi_connect", f"-l:{LIBRARY}.0".encode())
        if path.suffix == ".cmake":
            content = re.sub(rb"libmpi_connect\.so(?!\.)", f"{LIBRARY}.0".encode(), content)
        yield name, content, path.parent.name == "bin"


def main(tree, out):
    project = (ROOT / "python/pyproject.toml").read_text()
    module = ROOT / "python/mpi_connect"
    version = field("version", (ROOT / "Cargo.toml").read_text())
    if version != field("__version__", (module / "__init__.py").read_text()):
        sys.exit(f"wheel.py: python/mpi_connect/__init__.py has another version than Cargo.toml's {version}")
    info = f"mpi_connect-{version}.dist-info"
    metadata = f"""\
Metadata-Version: 2.4
Name: {field("name", project)}
Version: {version}
Summary: {field("description", project)}
License-Expression: Apache-2.0 OR MIT
License-File: LICENSE-APACHE
License-File: LICENSE-MIT
Requires-Python: {field("requires-python", project)}
Requires-Dist: mpi4py>=4.0
Description-Content-Type: text/markdown

""" + (ROOT / "python/README.md").read_text()
    if 'dependencies = ["mpi4py>=4.0"]' not in project:
        sys.exit("wheel.py: python/pyproject.toml has other dependencies than those written here")

    sources = [*sorted(module.glob("*.py")), module / "py.typed"]
    files = [(f"mpi_connect/{p.name}", p.read_bytes(), False) for p in sources]
    files += [(f"mpi_connect/{name}", content, program) for name, content, program in parts(tree)]
    wheel_info = f"Wheel-Version: 1.0\nGenerator: wheel.py\nRoot-Is-Purelib: false\nTag: {TAG}\n"
    files += [
        (f"{info}/licenses/LICENSE-APACHE", (ROOT / "LICENSE-APACHE").read_bytes(), False),
        (f"{info}/licenses/LICENSE-MIT", (ROOT / "LICENSE-MIT").read_bytes(), False),
        (f"{info}/METADATA", metadata.encode(), False),
        (f"{info}/WHEEL", wheel_info.encode(), False),
        (f"{info}/entry_points.txt", b"[console_scripts]\nmpi-connect = mpi_connect._installed:command\n", False),
    ]

    def hashed(content):
        return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()

    record = "".join(f"{name},{hashed(content)},{len(content)}\n" for name, content, _ in files)
    files.append((f"{info}/RECORD", (record + f"{info}/RECORD,,\n").encode(), False))

    wheel = out / f"mpi_connect-{version}-{TAG}.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content, program in files:
            # One time for all, so that the same files give the same wheel.
            entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            entry.external_attr = (0o100755 if program else 0o100644) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, content)
    print(wheel)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
