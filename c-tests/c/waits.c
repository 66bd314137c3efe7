/* Ports at which somebody waits in vain, and names that lead nowhere.
 *
 *     waits server SECONDS | waits client SECONDS FOREIGN, or - where no name is known to be another MPI's
 */
#include "kit.h"

static MPI_Info limit(const char *seconds)
{
    MPI_Info info;
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "timeout", (char *)seconds));
    return info;
}

/* One port is never accepted at, and nobody comes to the other. */
static void server(const char *seconds)
{
    char name[MPI_MAX_PORT_NAME], other[MPI_MAX_PORT_NAME];
    MPI_Comm inter;
    OK(MPI_Open_port(MPI_INFO_NULL, name));
    OK(MPI_Open_port(MPI_INFO_NULL, other));
    if (kit_rank == 0) {
        OK(MPI_Publish_name("urn:site:ocean", MPI_INFO_NULL, name));
        kit_write(kit_path("port"), name);
    }
    FAILS_SAYING(MPI_Comm_accept(other, limit(seconds), 0, MPI_COMM_WORLD, &inter), "nobody connected");
    if (kit_rank == 0) {
        kit_await(kit_path("waited"));
        OK(MPI_Unpublish_name("urn:site:ocean", MPI_INFO_NULL, name));
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

static void client(const char *seconds, const char *foreign)
{
    char name[MPI_MAX_PORT_NAME] = "";
    MPI_Comm inter;
    if (kit_rank == 0) {
        kit_await(kit_path("port"));
        FAILS_SAYING(MPI_Lookup_name("urn:site:ocaen", MPI_INFO_NULL, name), "urn:site:ocaen",
                     "did you mean 'urn:site:ocean'?", "start it by 'mpi-connect run'");
        OK(MPI_Lookup_name("urn:site:ocean", MPI_INFO_NULL, name));
    }
    if (strcmp(foreign, "-"))
        FAILS_SAYING(MPI_Comm_connect((char *)foreign, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter), "another MPI's own",
                     "its server runs without this library", "start it by 'mpi-connect run'");
    FAILS_SAYING(MPI_Comm_connect(name, limit(seconds), 0, MPI_COMM_WORLD, &inter), "nobody has accepted");
    if (kit_rank == 0) kit_write(kit_path("waited"), "");
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &kit_rank);
    kit_label = argv[1];
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (!strcmp(argv[1], "server"))
        server(argv[2]);
    else
        client(argv[2], argv[3]);
    int result = kit_end();
    MPI_Finalize();
    return result;
}
