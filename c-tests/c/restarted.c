/* A model that is coupled with another one, writes its state now and then, and goes on from there when it is started again.
 *
 *     restarted MINE THEIRS FOLDER STEPS EVERY [STOP]
 *
 * Each rank has some numbers. In each step it sends a part of them, of a size that changes, to every rank of the other job, and takes in
 * what these have sent LAG steps earlier; so messages are always on their way. Each EVERY steps there is a checkpoint. All that is
 * computed depends on all that was received, and the result is told at the end: it is the same however often all was
 * killed. A third of the messages each goes over an inter-communicator made by name, its duplicate, and one made at a port of MPI. The
 * first sizes are sent eagerly, the last by a rendezvous. At the step
 * STOP the job stands still until it is killed.
 */
#include "kit.h"
#include "by_fortran.h"
#include <sys/stat.h>

enum { LAG = 3, MOST = 40000, NUMBERS = 64, RANKS = 8, COMMS = 4, USED = 3 };

typedef struct {
    int step;
    double x[NUMBERS];
} State;

static int me, size, remote;
static State state;
static char label[MPI_CONN_MAX_LABEL];
static const char *folder, *mine;

static const char *file(const char *of, const char *end)
{
    static char path[4096];
    snprintf(path, sizeof path, "%s/%s-%d-%s%s", folder, mine, me, of, end);
    return path;
}

static void write_state(const char *of)
{
    char aside[4096];
    snprintf(aside, sizeof aside, "%s", file(of, ".part"));
    FILE *f = fopen(aside, "w");
    CHECK(f && fwrite(&state, sizeof state, 1, f) == 1 && !fflush(f) && !fsync(fileno(f)) && !fclose(f), "%s", aside);
    CHECK(!rename(aside, file(of, "")));
}

static void read_state(const char *of)
{
    FILE *f = fopen(file(of, ""), "r");
    CHECK(f && fread(&state, sizeof state, 1, f) == 1, "%s", file(of, ""));
    if (f) fclose(f);
}

/* How many numbers are sent in a step. */
static int amount(int step, int from, int to)
{
    static const int sizes[] = {1, 7, 64, 1000, 3, 9000, 0, MOST};
    return sizes[(step + 3 * from + 5 * to) % 8];
}

static void fold(const double *from, int count)
{
    for (int i = 0; i < count; ++i) state.x[i % NUMBERS] = state.x[i % NUMBERS] * 0.75 + from[i] / (i + 2.0) + 0.125;
}

/* An inter-communicator of the same processes, made at a port of MPI's own that one of them opens. */
static void meet_at_port(int opens, MPI_Comm other, MPI_Comm *made)
{
    char port[4096] = ""; /* MPIs differ in MPI_MAX_PORT_NAME */
    if (opens) {
        if (me == 0) OK(MPI_Open_port(MPI_INFO_NULL, port));
        if (me == 0) OK(MPI_Send(port, (int)strlen(port) + 1, MPI_CHAR, 0, 0, other));
        OK(MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, made));
        if (me == 0) OK(MPI_Close_port(port));
    } else {
        if (me == 0) OK(MPI_Recv(port, sizeof port, MPI_CHAR, 0, 0, other, MPI_STATUS_IGNORE));
        OK(MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, made));
    }
}

int main(int argc, char **argv)
{
    int handle, count = -1;
    MPI_Comm comms[COMMS], other;
    static double out[LAG + 1][USED][RANKS][MOST], in[MOST], sum[NUMBERS];
    MPI_Request sends[LAG + 1][USED][RANKS];
    OK(MPI_Init(&argc, &argv));
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    kit_rank = me, kit_label = argv[1];
    mine = argv[1], folder = argv[3];
    int steps = atoi(argv[4]), every = atoi(argv[5]), stop = argc > 6 ? atoi(argv[6]) : -1;
    OK(MPI_Conn_register(mine, MPI_COMM_WORLD, &handle));
    OK(MPI_Conn_restart(handle, folder, label, COMMS, comms, &count));
    if (count == 0) {
        CHECK(label[0] == 0);
        OK(MPI_Conn_intercomm_create(handle, argv[2], &comms[0]));
        OK(MPI_Comm_dup(comms[0], &comms[1]));
        meet_at_port(strcmp(mine, argv[2]) < 0, comms[0], &comms[2]);
        for (int i = 0; i < NUMBERS; ++i) state.x[i] = 1.0 / (1 + i + 10 * me + strlen(mine));
    } else {
        SAME(count, USED);
        read_state(label);
    }
    other = comms[0];
    if (me == 0) printf("FROM %d\n", state.step), fflush(stdout);
    OK(MPI_Comm_remote_size(other, &remote));
    for (int i = 0; i < (LAG + 1) * USED * RANKS; ++i) (&sends[0][0][0])[i] = MPI_REQUEST_NULL;
    for (int first = state.step;; ++state.step) {
        int step = state.step;
        if (step % every == 0 && step > first) {
            char name[32];
            snprintf(name, sizeof name, "step-%d", step);
            write_state(name);
            OK(MPI_Conn_checkpoint(handle, folder, name));
        }
        if (step == stop) {
            printf("STANDS\n"), fflush(stdout);
            OK(MPI_Recv(in, MOST, MPI_DOUBLE, 0, 99, other, MPI_STATUS_IGNORE)); /* nobody sends it */
        }
        if (step == steps + LAG) break;
        for (int r = 0; r < USED * remote && step < steps; ++r) {
            int to = r / USED, n = amount(step, me, r);
            double *buf = out[step % (LAG + 1)][r % USED][to];
            MPI_Request *request = &sends[step % (LAG + 1)][r % USED][to];
            OK(MPI_Wait(request, MPI_STATUS_IGNORE));
            for (int i = 0; i < n; ++i) buf[i] = state.x[(i + step) % NUMBERS] + i * 1e-3;
            if (step % 5 == 0)
                OK(MPI_Issend(buf, n, MPI_DOUBLE, to, step % 3, comms[r % USED], request));
            else
                OK(MPI_Isend(buf, n, MPI_DOUBLE, to, step % 3, comms[r % USED], request));
        }
        for (int r = 0; r < USED * remote && step >= LAG; ++r) {
            MPI_Status status;
            int got, from = r / USED;
            OK(MPI_Recv(in, MOST, MPI_DOUBLE, from, (step - LAG) % 3, comms[r % USED], &status));
            OK(MPI_Get_count(&status, MPI_DOUBLE, &got));
            SAME(got, amount(step - LAG, from, USED * me + r % USED));
            fold(in, got);
        }
        OK(MPI_Allreduce(state.x, sum, NUMBERS, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD));
        for (int i = 0; i < NUMBERS; ++i) state.x[i] += sum[i] * 0.0625;
        for (int i = 0; i < NUMBERS; ++i) state.x[i] = state.x[i] > 10 ? state.x[i] * 0.1 : state.x[i];
    }
    OK(MPI_Waitall((LAG + 1) * USED * RANKS, &sends[0][0][0], MPI_STATUSES_IGNORE));
    unsigned long long hash = 1469598103934665603ull;
    for (size_t i = 0; i < sizeof state.x; ++i) hash = (hash ^ ((unsigned char *)state.x)[i]) * 1099511628211ull;
    printf("RESULT %d %016llx\n", me, hash);
    int failed = kit_end();
    for (int i = USED; i-- > 0;) OK(MPI_Comm_free(&comms[i]));
    OK(MPI_Conn_remove(handle));
    MPI_Finalize();
    return failed;
}
