/* Opens a port, publishes it as "sum", and adds up what the ranks of one client send. Nothing here knows of MPI_Connect. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int rank, clients;
    char port[MPI_MAX_PORT_NAME];
    MPI_Comm client;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0) {
        MPI_Open_port(MPI_INFO_NULL, port);
        MPI_Publish_name("sum", MPI_INFO_NULL, port);
    }
    MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &client);
    MPI_Comm_remote_size(client, &clients);
    if (rank == 0) {
        int sum = 0;
        for (int i = 0; i < clients; ++i) {
            int value;
            MPI_Recv(&value, 1, MPI_INT, i, 0, client, MPI_STATUS_IGNORE);
            sum += value;
        }
        for (int i = 0; i < clients; ++i) MPI_Send(&sum, 1, MPI_INT, i, 0, client);
        printf("server: %d clients, the sum is %d\n", clients, sum);
        MPI_Unpublish_name("sum", MPI_INFO_NULL, port);
    }
    MPI_Comm_disconnect(&client);
    if (rank == 0) MPI_Close_port(port);
    MPI_Finalize();
    return 0;
}
