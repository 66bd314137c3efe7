/* A job with a port, and one that connects to it: `lied_port NAME accept|connect`. Both make checkpoints. Before the second one comes,
 * a liar calls the port, who says that it is that job. */
#include "ports.h"

int main(int argc, char **argv)
{
    char port[PORT_ROOM] = "", label[MPI_CONN_MAX_LABEL], folder[4096];
    int size, handle, count = -1, got = -1;
    MPI_Comm comms[2], inter;
    ports_begin(&argc, &argv);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    kit_label = argv[1];
    OK(MPI_Conn_register(argv[1], MPI_COMM_WORLD, &handle));
    snprintf(folder, sizeof folder, "%s", kit_path("of-%s", argv[1]));
    OK(MPI_Conn_restart(handle, folder, label, 2, comms, &count));
    SAME(count, 0);
    if (!strcmp(argv[2], "accept")) {
        if (kit_rank == 0) {
            OK(MPI_Open_port(MPI_INFO_NULL, port));
            kit_write(kit_path("port"), port);
        }
        OK(MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter));
        if (kit_rank == 0) OK(MPI_Close_port(port));
    } else {
        kit_await(kit_path("lying"));
        if (kit_rank == 0) {
            FILE *f = fopen(kit_path("port"), "r");
            CHECK(f && fgets(port, sizeof port, f), "no name of a port");
            if (f) fclose(f);
        }
        OK(MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter));
    }
    OK(MPI_Sendrecv(&size, 1, MPI_INT, kit_rank, 5, &got, 1, MPI_INT, kit_rank, 5, inter, MPI_STATUS_IGNORE));
    SAME(got, size);
    OK(MPI_Comm_disconnect(&inter));
    OK(MPI_Conn_remove(handle));
    int result = kit_end();
    MPI_Finalize();
    return result;
}
