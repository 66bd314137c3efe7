/* One of several models in a chain, each coupled with its neighbours, that writes its state now and then, and goes on from there.
 *
 *     chain MINE FOLDER STEPS EVERY [NEIGHBOUR ...]
 *
 * Each pair of neighbours has four inter-communicators: the first one, its duplicate, parts of even and of odd ranks, and one of a
 * group; the last two have their ranks in reverse. Messages go by all of them, of sizes that change, and are received LAG steps
 * later; rank 2 of a job sends and receives none. There are broadcasts and barriers too. All that is computed depends on all that
 * was received, and is told at the end. Ranks, names, attributes and error handlers are looked at after each start.
 */
#include "kit.h"

enum { LAG = 3, MOST = 20000, NUMBERS = 64, RANKS = 4, JOBS = 2, SILENT = 2 };
enum { FIRST, TWIN, PART, MADE, COMMS };

typedef struct {
    const char *name;
    int size;
    MPI_Comm comms[COMMS];
    MPI_Request sends[LAG + 1][COMMS][RANKS];
    double out[LAG + 1][COMMS][RANKS][MOST];
} Neighbour;

static struct {
    int step;
    double x[NUMBERS];
} state;

static int me, size, neighbours;
static const char *folder, *mine;
static Neighbour all[JOBS];

static const char *file(const char *label, const char *end)
{
    static char path[2][4096];
    char *at = path[!*end];
    snprintf(at, sizeof path[0], "%s/%s-%d-%s%s", folder, mine, me, label, end);
    return at;
}

static void write_state(const char *label)
{
    const char *aside = file(label, ".part");
    FILE *f = fopen(aside, "w");
    CHECK(f && fwrite(&state, sizeof state, 1, f) == 1 && !fflush(f) && !fsync(fileno(f)) && !fclose(f), "%s", aside);
    CHECK(!rename(aside, file(label, "")));
}

static void read_state(const char *label)
{
    FILE *f = fopen(file(label, ""), "r");
    CHECK(f && fread(&state, sizeof state, 1, f) == 1, "%s", file(label, ""));
    if (f) fclose(f);
}

/* The ranks of a job of this size that are in an inter-communicator of this process's, in their order there. */
static int members(int of, int job_size, int ranks[RANKS])
{
    int count = 0;
    for (int i = 0; i < job_size; ++i) {
        int rank = of == PART || of == MADE ? job_size - 1 - i : i;
        if ((of == PART && rank % 2 != me % 2) || (of == MADE && rank == 0)) continue;
        ranks[count++] = rank;
    }
    return count;
}

/* The name of the duplicate: the same on both sides, as it happens. */
static const char *name_of(const Neighbour *n)
{
    static char name[MPI_MAX_OBJECT_NAME];
    int is_first = strcmp(mine, n->name) < 0;
    snprintf(name, sizeof name, "between %s and %s", is_first ? mine : n->name, is_first ? n->name : mine);
    return name;
}

static void make(int handle, Neighbour *n)
{
    int ranks[RANKS], count;
    MPI_Group local, group;
    OK(MPI_Conn_intercomm_create(handle, n->name, &n->comms[FIRST]));
    OK(MPI_Comm_dup(n->comms[FIRST], &n->comms[TWIN]));
    OK(MPI_Comm_set_name(n->comms[TWIN], (char *)name_of(n)));
    OK(MPI_Comm_split(n->comms[FIRST], me % 2, -me, &n->comms[PART]));
    OK(MPI_Comm_group(MPI_COMM_WORLD, &local));
    count = members(MADE, size, ranks);
    OK(MPI_Group_incl(local, count, ranks, &group));
    OK(MPI_Comm_create(n->comms[FIRST], group, &n->comms[MADE]));
    OK(MPI_Group_free(&group));
    OK(MPI_Group_free(&local));
}

/* What the inter-communicators are, made here or given back. */
static void look(Neighbour *n)
{
    OK(MPI_Comm_remote_size(n->comms[FIRST], &n->size));
    for (int c = 0; c < COMMS; ++c) {
        int ranks[RANKS], rank, count, flag = 0, *most, length = -1;
        char name[MPI_MAX_OBJECT_NAME];
        MPI_Errhandler handler;
        MPI_Comm comm = n->comms[c];
        CHECK((comm == MPI_COMM_NULL) == (c == MADE && me == 0), "comm %d", c);
        if (comm == MPI_COMM_NULL) continue;
        OK(MPI_Comm_test_inter(comm, &flag));
        CHECK(flag);
        OK(MPI_Comm_size(comm, &count));
        SAME(count, members(c, size, ranks));
        OK(MPI_Comm_rank(comm, &rank));
        SAME(ranks[rank], me);
        OK(MPI_Comm_remote_size(comm, &count));
        SAME(count, members(c, n->size, ranks));
        OK(MPI_Comm_get_attr(comm, MPI_TAG_UB, &most, &flag));
        CHECK(flag && *most >= 32767);
        OK(MPI_Comm_get_name(comm, name, &length));
        CHECK(!strcmp(name, name_of(n)) == (c == TWIN), "comm %d is named \"%s\"", c, name);
        OK(MPI_Comm_get_errhandler(comm, &handler));
        CHECK(handler == MPI_ERRORS_RETURN);
        /* Whose other job was killed has nothing more to do. */
        OK(MPI_Comm_set_errhandler(comm, MPI_ERRORS_ARE_FATAL));
    }
}

static int amount(int step, int from, int to)
{
    static const int sizes[] = {1, 7, 64, 1000, 3, 6000, 0, MOST};
    return sizes[(step + 3 * from + 5 * to) % 8];
}

static void fold(const double *from, int count)
{
    for (int i = 0; i < count; ++i) state.x[i % NUMBERS] = state.x[i % NUMBERS] * 0.75 + from[i] / (i + 2.0) + 0.125;
}

static void send_to(Neighbour *n, int c, int step)
{
    int ranks[RANKS], count = members(c, n->size, ranks);
    for (int to = 0; to < count; ++to) {
        int items = amount(step, me, ranks[to] + c);
        double *buf = n->out[step % (LAG + 1)][c][to];
        MPI_Request *request = &n->sends[step % (LAG + 1)][c][to];
        if (ranks[to] == SILENT) continue;
        OK(MPI_Wait(request, MPI_STATUS_IGNORE));
        for (int i = 0; i < items; ++i) buf[i] = state.x[(i + step) % NUMBERS] + i * 1e-3 + c;
        OK(MPI_Isend(buf, items, MPI_DOUBLE, to, step % 3, n->comms[c], request));
    }
}

static void receive_from(Neighbour *n, int c, int step)
{
    static double in[MOST];
    int ranks[RANKS], count = members(c, n->size, ranks), got;
    for (int from = 0; from < count; ++from) {
        MPI_Status status;
        if (ranks[from] == SILENT) continue;
        OK(MPI_Recv(in, MOST, MPI_DOUBLE, from, step % 3, n->comms[c], &status));
        OK(MPI_Get_count(&status, MPI_DOUBLE, &got));
        SAME(got, amount(step, ranks[from], me + c));
        fold(in, got);
    }
}

/* The sides take turns at broadcasting, from every rank. */
static void broadcast(Neighbour *n, int step)
{
    double numbers[100];
    int is_first = strcmp(mine, n->name) < 0, sends = step / 2 % 2 == is_first, root = step % (sends ? size : n->size);
    for (int i = 0; i < 100; ++i) numbers[i] = state.x[i % NUMBERS] + i;
    if (sends) root = root == me ? MPI_ROOT : MPI_PROC_NULL;
    OK(MPI_Bcast(numbers, 100, MPI_DOUBLE, root, n->comms[step % 2 ? FIRST : TWIN]));
    if (!sends) fold(numbers, 100);
}

int main(int argc, char **argv)
{
    static char label[MPI_CONN_MAX_LABEL];
    static double sum[NUMBERS];
    int handle, count = -1;
    MPI_Comm comms[JOBS * COMMS];
    OK(MPI_Init(&argc, &argv));
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    kit_rank = me, kit_label = argv[1];
    mine = argv[1], folder = argv[2], neighbours = argc - 5;
    int steps = atoi(argv[3]), every = atoi(argv[4]);
    CHECK(size <= RANKS && neighbours <= JOBS);
    /* What is made or given back has this one. */
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    OK(MPI_Conn_register(mine, MPI_COMM_WORLD, &handle));
    OK(MPI_Conn_restart(handle, folder, label, JOBS * COMMS, comms, &count));
    for (int i = 0; i < NUMBERS; ++i) state.x[i] = 1.0 / (1 + i + 10 * me + strlen(mine));
    for (int j = 0, at = 0; j < neighbours; ++j) {
        all[j].name = argv[5 + j];
        for (int i = 0; i < (LAG + 1) * COMMS * RANKS; ++i) (&all[j].sends[0][0][0])[i] = MPI_REQUEST_NULL;
        if (!label[0]) {
            make(handle, &all[j]);
        } else {
            for (int c = 0; c < COMMS; ++c) all[j].comms[c] = c == MADE && me == 0 ? MPI_COMM_NULL : comms[at++];
            SAME(count, neighbours * (COMMS - (me == 0)));
        }
        look(&all[j]);
    }
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL));
    if (label[0]) read_state(label);
    /* Where it would go on from. */
    if (me == 0) printf("FROM %d\n", state.step), fflush(stdout);
    for (int first = state.step;; ++state.step) {
        int step = state.step;
        if (step % every == 0 && step > first) {
            char name[32];
            snprintf(name, sizeof name, "step-%d", step);
            write_state(name);
            OK(MPI_Conn_checkpoint(handle, folder, name));
            /* It is complete already where no other job has to make its own. */
            if (!neighbours && me == 0) printf("FROM %d\n", step), fflush(stdout);
        }
        if (me == 0) printf("STEP %d\n", step), fflush(stdout);
        if (step == steps + LAG) break;
        for (int j = 0; j < neighbours; ++j)
            for (int c = 0; c < COMMS && me != SILENT; ++c) {
                if (all[j].comms[c] == MPI_COMM_NULL) continue;
                if (step < steps) send_to(&all[j], c, step);
                if (step >= LAG) receive_from(&all[j], c, step - LAG);
            }
        for (int j = 0; j < neighbours; ++j) {
            broadcast(&all[j], step);
            if (step % 8 == 5) OK(MPI_Barrier(all[j].comms[TWIN]));
        }
        OK(MPI_Allreduce(state.x, sum, NUMBERS, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD));
        for (int i = 0; i < NUMBERS; ++i) state.x[i] += sum[i] * 0.0625;
        for (int i = 0; i < NUMBERS; ++i) state.x[i] = state.x[i] > 10 ? state.x[i] * 0.1 : state.x[i];
        /* A program without others would be through before it can be killed. */
        if (!neighbours) kit_sleep_ms(10);
    }
    unsigned long long hash = 1469598103934665603ull;
    for (size_t i = 0; i < sizeof state.x; ++i) hash = (hash ^ ((unsigned char *)state.x)[i]) * 1099511628211ull;
    printf("RESULT %d %016llx\n", me, hash);
    for (int j = 0; j < neighbours; ++j) {
        OK(MPI_Waitall((LAG + 1) * COMMS * RANKS, &all[j].sends[0][0][0], MPI_STATUSES_IGNORE));
        for (int c = 0; c < COMMS; ++c)
            if (all[j].comms[c] != MPI_COMM_NULL) OK(MPI_Comm_free(&all[j].comms[c]));
    }
    int failed = kit_end();
    OK(MPI_Conn_remove(handle));
    MPI_Finalize();
    return failed;
}
