/* Two hosts: `port_far ROLE FILE VICTIM`. The two jobs meet by a port, over MPI_COMM_WORLD, and at once all ranks of the job
 * VICTIM die. Those of the other are told, also those who have never met anybody. */
#define _GNU_SOURCE
#include "ports.h"
#include <signal.h>

int main(int argc, char **argv)
{
    char port[PORT_ROOM] = "";
    int me, serves, word = 0;
    MPI_Comm inter;
    ports_begin(&argc, &argv);
    if (argc != 4) MPI_Abort(MPI_COMM_WORLD, 2);
    serves = !strcmp(argv[1], "server");
    kit_label = argv[1];
    me = kit_rank;
    if (serves) {
        if (!me) {
            OK(MPI_Open_port(MPI_INFO_NULL, port));
            port_tell(argv[2], port);
        }
        OK(MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter));
    } else {
        if (!me) port_hear(argv[2], port);
        OK(MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter));
    }
    if (!strcmp(argv[1], argv[3])) {
        OK(MPI_Barrier(MPI_COMM_WORLD)); /* nobody is killed by the launcher while another is still in the call */
        raise(SIGKILL);
    }
    double start = kit_ms();
    int code = MPI_Recv(&word, 1, MPI_INT, me, 1, inter, MPI_STATUS_IGNORE);
    double took = kit_ms() - start;
    CHECK(code != MPI_SUCCESS);
    CHECK(took < 5000, "told after %.0f ms", took);
    printf("TOLD %.0f\n", took);
    int result = kit_end();
    MPI_Finalize();
    return result;
}
