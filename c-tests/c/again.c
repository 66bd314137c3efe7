/* A job that is started twice. The first time it makes a checkpoint, and then one that is refused, since only parts of the jobs are
 * joined by then. The second time it looks at what is given back.
 *
 *     again MINE THEIRS FOLDER HERE END [PORT]
 *
 * The second time it makes the file HERE, and waits for END. With PORT, the first time it is joined at a port of MPI alone, whose name
 * is in this file.
 */
#include "kit.h"
#include "line.h"

static const char name[] = "between both sides";

/* MPI_TAG_UB, and one of the program's: whether it is there. */
static int has(MPI_Comm comm, int keyval)
{
    void *value;
    int flag = 0;
    OK(MPI_Comm_get_attr(comm, keyval, &value, &flag));
    return flag;
}

/* Messages of an inter-communicator that was given back, and of those that are made anew as it was made. */
static void meet_again(int handle, const char *theirs, MPI_Comm other)
{
    MPI_Comm comms[7] = {other};
    for (int i = 1; i < 7; i += 2) {
        OK(MPI_Conn_intercomm_create(handle, theirs, &comms[i]));
        OK(MPI_Comm_dup(comms[i], &comms[i + 1]));
    }
    for (int i = 0; i < 7; ++i) OK(MPI_Send(&i, 1, MPI_INT, kit_rank, 0, comms[i]));
    for (int i = 6, got; i >= 0; --i) {
        OK(MPI_Recv(&got, 1, MPI_INT, kit_rank, 0, comms[i], MPI_STATUS_IGNORE));
        SAME(got, i);
    }
    for (int i = 1; i < 7; ++i) OK(MPI_Comm_free(&comms[i]));
}

/* The inter-communicator of the first time, by names. */
static void meet(int handle, const char *theirs, MPI_Comm *made)
{
    MPI_Comm part;
    /* Numbers that were given are not given again, also if nothing else of an inter-communicator is left. */
    for (int i = 0; i < 3; ++i) {
        OK(MPI_Conn_intercomm_create(handle, theirs, &part));
        if (i == 2) OK(MPI_Comm_dup(part, made));
        OK(MPI_Comm_free(&part));
    }
}

/* The same at a port. */
static void meet_at_port(int opens, const char *path, MPI_Comm *made)
{
    char port[4096] = "";
    if (opens) {
        if (kit_rank == 0) {
            OK(MPI_Open_port(MPI_INFO_NULL, port));
            kit_write(path, port);
        }
        OK(MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, made));
        if (kit_rank == 0) OK(MPI_Close_port(port));
    } else {
        kit_await(path);
        FILE *f = fopen(path, "r");
        CHECK(f && fgets(port, sizeof port, f), "%s", path);
        if (f) fclose(f);
        OK(MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, made));
    }
}

int main(int argc, char **argv)
{
    int handle, count = -1, keyval, length;
    char label[MPI_CONN_MAX_LABEL], got[MPI_MAX_OBJECT_NAME];
    MPI_Comm other, part;
    OK(MPI_Init(&argc, &argv));
    MPI_Comm_rank(MPI_COMM_WORLD, &kit_rank);
    kit_label = argv[1];
    OK(MPI_Conn_register(argv[1], MPI_COMM_WORLD, &handle));
    OK(MPI_Conn_restart(handle, argv[3], label, 1, &other, &count));
    OK(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &keyval, NULL));
    if (count == 0) {
        CHECK(!label[0]);
        if (argc > 6) meet_at_port(strcmp(argv[1], argv[2]) < 0, argv[6], &other);
        else meet(handle, argv[2], &other);
        OK(MPI_Comm_set_name(other, (char *)name));
        OK(MPI_Comm_set_attr(other, keyval, label));
        OK(MPI_Conn_checkpoint(handle, argv[3], "one"));
        await_line(argv[3], argv[1]);
        OK(MPI_Comm_split(other, kit_rank, 0, &part));
        OK(MPI_Comm_free(&other));
        OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
        FAILS_SAYING(MPI_Conn_checkpoint(handle, argv[3], "two"), argv[2], "parts");
        FAILS_SAYING(MPI_Conn_checkpoint(handle, argv[3], "a\nb"), "label", "control characters");
        OK(MPI_Comm_free(&part));
    } else {
        SAME(count, 1);
        CHECK(!strcmp(label, "one"), "%s", label);
        OK(MPI_Comm_get_name(other, got, &length));
        CHECK(!strcmp(got, name), "%s", got);
        CHECK(has(other, MPI_TAG_UB));
        CHECK(!has(other, keyval), "attributes are the program's");
        OK(MPI_Comm_set_attr(other, keyval, label));
        CHECK(has(other, keyval));
        meet_again(handle, argv[2], other);
        if (kit_rank == 0) kit_write(argv[4], "");
        kit_await(argv[5]);
        OK(MPI_Comm_free(&other));
    }
    OK(MPI_Comm_free_keyval(&keyval));
    OK(MPI_Conn_remove(handle));
    int failed = kit_end();
    MPI_Finalize();
    return failed;
}
