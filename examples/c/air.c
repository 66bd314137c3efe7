/* The air: sends the heat at its surface to the ocean, and gets the ocean's temperature. */
#include <mpi.h>
#include <mpi_connect.h>
#include <stdio.h>

enum { CELLS = 100, STEPS = 10 };

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int rank, handle;
    MPI_Comm ocean;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Conn_register("air", MPI_COMM_WORLD, &handle);  /* our name */
    MPI_Conn_intercomm_create(handle, "ocean", &ocean); /* waits for the other job */
    MPI_Conn_remove(handle);                            /* the name is free again; `ocean` stays */

    double heat[CELLS], temperature[CELLS];
    for (int i = 0; i < CELLS; ++i) temperature[i] = 10;
    for (int step = 0; step < STEPS; ++step) {
        for (int i = 0; i < CELLS; ++i) heat[i] = 20 - temperature[i]; /* warm air gives heat to a cold ocean */
        /* Rank r talks with rank r of the other job. */
        MPI_Sendrecv(heat, CELLS, MPI_DOUBLE, rank, 0, temperature, CELLS, MPI_DOUBLE, rank, 0, ocean,
                     MPI_STATUS_IGNORE);
    }
    printf("air %d: the ocean has %.3f degrees\n", rank, temperature[0]);
    MPI_Comm_free(&ocean);
    MPI_Finalize();
    return 0;
}
