/* One half of a coupled pair: pair MINE THEIRS. Each rank exchanges a message with its counterpart, and looks at it. */
#include <mpi.h>
#include <mpi_connect.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    int handle, rank, size, remote, i, bad = 0, length;
    double heat[100], got[100] = {0};
    char library[MPI_MAX_LIBRARY_VERSION_STRING];
    MPI_Comm other;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Conn_register(argv[1], MPI_COMM_WORLD, &handle);
    MPI_Conn_intercomm_create(handle, argv[2], &other);
    MPI_Conn_remove(handle);
    MPI_Comm_remote_size(other, &remote);
    for (i = 0; i < 100; i++)
        heat[i] = argv[1][0] * 1000.0 + rank * 100 + i;
    MPI_Sendrecv(heat, 100, MPI_DOUBLE, rank, 0, got, 100, MPI_DOUBLE, rank, 0, other, MPI_STATUS_IGNORE);
    for (i = 0; i < 100; i++)
        bad += got[i] != argv[2][0] * 1000.0 + rank * 100 + i;
    MPI_Comm_free(&other);
    MPI_Get_library_version(library, &length);
    for (i = 0; library[i] && library[i] != ','; i++)
        if (library[i] == '\n' || library[i] == '\t')
            library[i] = ' ';
    if (bad || remote != size)
        fprintf(stderr, "%s rank %d: %d values are wrong, from %d ranks\n", argv[1], rank, bad, remote);
    else if (rank == 0)
        printf("%s joined %s, %d ranks each; %.40s\n", argv[1], argv[2], size, library);
    MPI_Finalize();
    return bad || remote != size;
}
