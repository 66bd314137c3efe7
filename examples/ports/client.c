/* Connects to the port published as "sum"; each rank sends a number to the server and gets the sum of all. */
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int rank, value, sum;
    char port[MPI_MAX_PORT_NAME];
    MPI_Comm server;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0) {
        /* The server may be late: until it has published its port, the name is an error. */
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
        MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
        while (MPI_Lookup_name("sum", MPI_INFO_NULL, port) != MPI_SUCCESS) usleep(100000);
    }
    MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &server);
    value = 10 * (rank + 1);
    MPI_Send(&value, 1, MPI_INT, 0, 0, server);
    MPI_Recv(&sum, 1, MPI_INT, 0, 0, server, MPI_STATUS_IGNORE);
    printf("client %d: sent %d, the sum is %d\n", rank, value, sum);
    MPI_Comm_disconnect(&server);
    MPI_Finalize();
    return 0;
}
