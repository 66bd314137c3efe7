/* The library's calls, and how a side joins with the other one. A program compiled with BENCH_NATIVE is for one job, and has none
 * of them. */
#ifndef JOINED_H
#define JOINED_H

#include <mpi.h>
#ifndef BENCH_NATIVE
#include <mpi_connect.h>
/* Not linked with the library: LD_PRELOAD fills these in. */
#pragma weak MPI_Conn_register
#pragma weak MPI_Conn_intercomm_create
#pragma weak MPI_Conn_remove
#endif

UNUSED static MPI_Comm join(const char *own, const char *name_of_other)
{
    MPI_Comm joined = MPI_COMM_NULL;
#ifndef BENCH_NATIVE
    int handle;
    MPI_Conn_register(own, MPI_COMM_WORLD, &handle);
    MPI_Conn_intercomm_create(handle, name_of_other, &joined);
    MPI_Conn_remove(handle);
#else
    (void)own, (void)name_of_other;
    fail("compiled for one job");
#endif
    return joined;
}

#endif
