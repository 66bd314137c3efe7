/* The ocean: is warmed by the heat from the air, and sends its temperature. */
#include <mpi.h>
#include <mpi_connect.h>
#include <stdio.h>

enum { CELLS = 100, STEPS = 10 };

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int rank, handle;
    MPI_Comm air;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Conn_register("ocean", MPI_COMM_WORLD, &handle);
    MPI_Conn_intercomm_create(handle, "air", &air);
    MPI_Conn_remove(handle);

    double heat[CELLS], temperature[CELLS];
    for (int i = 0; i < CELLS; ++i) temperature[i] = 10;
    for (int step = 0; step < STEPS; ++step) {
        MPI_Recv(heat, CELLS, MPI_DOUBLE, rank, 0, air, MPI_STATUS_IGNORE);
        for (int i = 0; i < CELLS; ++i) temperature[i] += 0.25 * heat[i];
        MPI_Send(temperature, CELLS, MPI_DOUBLE, rank, 0, air);
    }
    printf("ocean %d: %.3f degrees\n", rank, temperature[0]);
    MPI_Comm_free(&air);
    MPI_Finalize();
    return 0;
}
