/* `port_native PORT`: what the MPI below says to ports of its own, for whoever compares that with the library and without.
 * PORT is a name that is not the library's, of nobody. */
#include "ports.h"

static void say(const char *call, int code)
{
    printf("SAYS %s: class %d\n", call, code == MPI_SUCCESS ? 0 : kit_class(code));
    fflush(stdout);
}

int main(int argc, char **argv)
{
    char port[PORT_ROOM] = "";
    MPI_Comm inter = MPI_COMM_NULL;
    ports_begin(&argc, &argv);
    int code = MPI_Open_port(MPI_INFO_NULL, port);
    say("MPI_Open_port", code);
    printf("SAYS its name: %s\n", code != MPI_SUCCESS ? "none" : strncmp(port, "mpic:", 5) ? "the MPI's" : "the library's");
    if (code == MPI_SUCCESS) say("MPI_Close_port", MPI_Close_port(port));
    if (argc > 1) say("MPI_Comm_connect", MPI_Comm_connect(argv[1], MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter));
    CHECK(inter == MPI_COMM_NULL);
    int result = kit_end();
    MPI_Finalize();
    return result;
}
