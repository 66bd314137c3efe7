/* The least that an MPI program can be: these four calls, and our header. The harness looks at what it is linked with. */
#include <mpi.h>
#include <mpi_connect.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    int word = 42;
    const char *names[] = {"PMI_RANK", "OMPI_COMM_WORLD_RANK", "LAMRANK"}, *rank = NULL;
    for (int i = 0; i < 3 && !rank; ++i) rank = getenv(names[i]);
    MPI_Init(&argc, &argv);
    if (rank && rank[0] == '0')
        MPI_Send(&word, 1, MPI_INT, 1, 0, MPI_COMM_WORLD);
    else {
        word = 0;
        MPI_Recv(&word, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        printf("GOT %d\n", word);
    }
    MPI_Finalize();
    return 0;
}
