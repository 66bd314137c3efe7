/* A library that is linked with the MPI and loaded late, as Python loads its modules: it tests weak references. */
#include <mpi.h>
#include <stdio.h>

#define FOR_ALL(DO) \
    DO(MPI_Send) DO(MPI_Send_c) DO(MPI_Bcast_c) DO(MPI_Mprobe) DO(MPI_Isendrecv) DO(MPI_Psend_init) \
    DO(MPI_Comm_create_from_group) DO(MPI_Ineighbor_alltoallw_c) DO(MPI_Comm_split_type) DO(MPIX_Comm_shrink) \
    DO(PMPI_Send) DO(PMPI_Send_c) DO(PMPI_Bcast_c)

#define DECLARE(name) extern int weak_##name(void) __asm__(#name) __attribute__((weak));
FOR_ALL(DECLARE)

void work(void)
{
    int initialized = 0, rank = -1;
    MPI_Initialized(&initialized);
    if (!initialized) MPI_Init(NULL, NULL);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
#define SAY(name) printf("plugin " #name " %s\n", weak_##name ? "seen" : "lacking");
    FOR_ALL(SAY)
    printf("rank %d\n", rank);
    MPI_Finalize();
}
