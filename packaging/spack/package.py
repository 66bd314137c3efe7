# Copyright Spack Project Developers. See COPYRIGHT file for details.
#
# SPDX-License-Identifier: (Apache-2.0 OR MIT)

import os

from spack.package import *


class MpiConnect(MakefilePackage):
    """Joins MPI jobs that were started apart, even under different MPI implementations: three
    calls give an inter-communicator to the other job. One library serves every MPI, so none is a
    dependency.
    """

    license("Apache-2.0 OR MIT")

    # There is no archive to fetch yet: `spack dev-build mpi-connect@0.1.0` in a checkout.
    version("0.1.0")

    variant("python", default=False, description="Install the module for mpi4py")

    depends_on("c", type="build")
    depends_on("rust@1.90:", type="build")
    depends_on("gmake", type="build")
    depends_on("python@3.9:", type=("build", "run"), when="+python")
    depends_on("py-mpi4py@4:", type="run", when="+python")

    extends("python", when="+python")

    conflicts("platform=darwin", msg="Linux only")
    requires("target=x86_64:", msg="x86-64 only")

    def build(self, spec, prefix):
        make("all")

    def install(self, spec, prefix):
        make("install", f"PREFIX={prefix}")
        if "+python" in spec:
            install_tree("python/mpi_connect", join_path(python_platlib, "mpi_connect"))

    def setup_run_environment(self, env):
        env.set("MPI_CONNECT_LIB", os.path.join(self.prefix.lib, "libmpi_connect.so"))

    @run_after("install")
    @on_package_attributes(run_tests=True)
    def installed_command_runs(self):
        Executable(self.prefix.bin.join("mpi-connect"))("--version")
