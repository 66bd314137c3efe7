/* One of two jobs whose ranks ask for each other's contact records: `large NAME OTHER PORT ROUNDS`. By names all exchange with all; then the jobs meet
 * at a port as often as ROUNDS says, by the last rank of either, and what is made of the inter-communicator outlives it. The job with the smaller name
 * opens the port, and writes its name to the file PORT. */
#include "kit.h"

/* Each rank sends its rank to all of the other side, and gets all of theirs, from any source. */
static void all_to_all(MPI_Comm comm)
{
    int rank, there;
    OK(MPI_Comm_rank(comm, &rank));
    OK(MPI_Comm_remote_size(comm, &there));
    MPI_Request *sent = malloc(sizeof *sent * (size_t)(there + 1));
    long sum = 0;
    for (int i = 0; i < there; ++i) OK(MPI_Isend(&rank, 1, MPI_INT, (rank + i) % there, 1, comm, &sent[i]));
    for (int i = 0; i < there; ++i) {
        int got;
        MPI_Status status;
        OK(MPI_Recv(&got, 1, MPI_INT, MPI_ANY_SOURCE, 1, comm, &status));
        SAME(got, status.MPI_SOURCE);
        sum += got;
    }
    SAME(sum, (long)there * (there - 1) / 2);
    OK(MPI_Waitall(there, sent, MPI_STATUSES_IGNORE));
    free(sent);
}

static void by_names(const char *name, const char *other)
{
    int handle, there, size, result;
    MPI_Comm comm, dup;
    MPI_Group group;
    OK(MPI_Conn_register(name, MPI_COMM_WORLD, &handle));
    OK(MPI_Conn_intercomm_create(handle, other, &comm));
    OK(MPI_Conn_remove(handle));
    all_to_all(comm);
    OK(MPI_Comm_dup(comm, &dup));
    OK(MPI_Comm_remote_size(dup, &there));
    OK(MPI_Comm_remote_group(dup, &group));
    OK(MPI_Group_size(group, &size));
    SAME(size, there);
    OK(MPI_Group_free(&group));
    OK(MPI_Comm_compare(comm, dup, &result));
    SAME(result, MPI_CONGRUENT);
    OK(MPI_Comm_free(&comm));
    all_to_all(dup);
    OK(MPI_Comm_free(&dup));
}

/* Parts of the even and of the odd ranks. The whole is freed before anything is said, so most ranks are asked for by parts alone. */
static void at_port(int opens, const char *port, int root)
{
    MPI_Comm whole, part;
    if (opens) OK(MPI_Comm_accept(port, MPI_INFO_NULL, root, MPI_COMM_WORLD, &whole));
    else OK(MPI_Comm_connect(port, MPI_INFO_NULL, root, MPI_COMM_WORLD, &whole));
    OK(MPI_Comm_split(whole, kit_rank % 2, kit_rank, &part));
    OK(MPI_Comm_free(&whole));
    all_to_all(part);
    OK(MPI_Comm_free(&part));
}

int main(int argc, char **argv)
{
    int size;
    char port[4096] = "";
    OK(MPI_Init(&argc, &argv));
    MPI_Comm_rank(MPI_COMM_WORLD, &kit_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    kit_label = argv[1];
    by_names(argv[1], argv[2]);
    int opens = strcmp(argv[1], argv[2]) < 0, root = size - 1;
    if (kit_rank == root && opens) {
        OK(MPI_Open_port(MPI_INFO_NULL, port));
        kit_write(argv[3], port);
    } else if (kit_rank == root) {
        kit_await(argv[3]);
        FILE *f = fopen(argv[3], "r");
        CHECK(f && fgets(port, sizeof port, f));
        if (f) fclose(f);
    }
    for (int i = 0; i < atoi(argv[4]); ++i) at_port(opens, port, root);
    if (kit_rank == root && opens) OK(MPI_Close_port(port));
    int code = kit_end();
    OK(MPI_Finalize());
    return code;
}
