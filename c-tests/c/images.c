/* A job whose checkpoints go wrong: each call is made when the harness says so, and what it returns is told.
 *
 *     images MINE THEIRS FOLDER
 *
 * THEIRS is "-" for a job that is joined with none. The file do-MINE-N in the test's folder has the N-th thing to do: `checkpoint`, or `end`.
 */
#include "kit.h"

enum { COMMS = 2, WORD = 32 };

static int me;

/* Says how a call went, on the leader. Whether it was good. */
static int told(const char *what, int code)
{
    if (me == 0) printf("%s %s\n", what, code == MPI_SUCCESS ? "good" : kit_error(code)), fflush(stdout);
    return code == MPI_SUCCESS;
}

int main(int argc, char **argv)
{
    int handle, count = 0;
    char label[MPI_CONN_MAX_LABEL] = "", word[WORD], what[300];
    MPI_Comm comms[COMMS];
    OK(MPI_Init(&argc, &argv));
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    kit_rank = me, kit_label = argv[1];
    int is_joined = strcmp(argv[2], "-") != 0;
    int is_good = told("REGISTER", MPI_Conn_register(argv[1], MPI_COMM_WORLD, &handle));
    if (is_good) {
        is_good = told("RESTART", MPI_Conn_restart(handle, argv[3], label, COMMS, comms, &count));
        if (is_good && me == 0) printf("LABEL %s\n", label), fflush(stdout);
        if (is_good && is_joined && !*label) OK(MPI_Conn_intercomm_create(handle, argv[2], &comms[0]));
        for (int n = 1; is_good; ++n) {
            if (me == 0) {
                char path[4096];
                snprintf(path, sizeof path, "%s", kit_path("do-%s-%d", argv[1], n));
                kit_await(path);
                memset(word, 0, sizeof word);
                FILE *f = fopen(path, "r");
                CHECK(f && fgets(word, sizeof word, f));
                if (f) fclose(f);
            }
            OK(MPI_Bcast(word, WORD, MPI_CHAR, 0, MPI_COMM_WORLD));
            if (strcmp(word, "checkpoint")) break;
            snprintf(label, sizeof label, "step-%d", n);
            snprintf(what, sizeof what, "CHECKPOINT-%d", n);
            told(what, MPI_Conn_checkpoint(handle, argv[3], label));
        }
        if (is_good && is_joined) OK(MPI_Comm_free(&comms[0]));
        OK(MPI_Conn_remove(handle));
    }
    int failed = kit_end();
    MPI_Finalize();
    return failed;
}
