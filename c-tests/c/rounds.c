/* `rounds NAME OTHER SIDE FIRST ROUNDS EVERY`: an inter-communicator is made, used in all ways and freed, so many times.
 * What the process has after FIRST rounds is what it has after all of them: memory, descriptors, threads, communicators,
 * files of the naming service. Every so many rounds one side joins under a name of that round's own.
 *
 * Without the library (KIT_NATIVE) it is the control: one process, without messages, makes the calls that the MPI below
 * gets, those of the program and those of the library. What grows there is the MPI's own. */
#define _GNU_SOURCE
#include "having.h"
#include <sys/prctl.h>

#ifdef KIT_NATIVE
enum { CONTROL = 1 };
/* As the library has one for itself. */
static MPI_Comm private;
#else
enum { CONTROL = 0 };
#endif

enum { LARGE = 25000 };
static MPI_Comm inter = MPI_COMM_NULL;
static int me, side, keyval, deleted, heard;
static int *out, *in;
static uint64_t round_seed;

#define BYTES(n) ((size_t)(n) * sizeof(int))
static uint64_t seed(int from) { return round_seed << 1 | (unsigned)from; }

/* Both sides have done what comes before. */
static void meet(void)
{
    int word = 31000, got = -1;
    if (CONTROL) return;
    OK(MPI_Sendrecv(&word, 1, MPI_INT, me, 1, &got, 1, MPI_INT, me, 1, inter, MPI_STATUS_IGNORE));
    SAME(got, word);
}

/* ---- what one does with an inter-communicator ---- */

/* Everybody with everybody, so that all are connected from the first round on. */
static void greet(void)
{
    int ranks, word = me, got = -1;
    OK(MPI_Comm_size(MPI_COMM_WORLD, &ranks));
    for (int i = 0; i < ranks; ++i) {
        int to = (me + i) % ranks, from = (me + ranks - i) % ranks;
        OK(MPI_Sendrecv(&word, 1, MPI_INT, to, 2, &got, 1, MPI_INT, from, 2, inter, MPI_STATUS_IGNORE));
        SAME(got, from);
    }
}

static void plain(void)
{
    MPI_Request requests[2];
    MPI_Status status;
    int word = (int)round_seed, got = -1, count = -1;
    OK(MPI_Sendrecv(&word, 1, MPI_INT, me, 10, &got, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, inter, &status));
    SAME(got, word);
    SAME(status.MPI_TAG, 10);
    kit_fill(out, BYTES(LARGE), seed(side));
    memset(in, 0, BYTES(LARGE));
    OK(MPI_Irecv(in, LARGE, MPI_INT, me, 11, inter, &requests[0]));
    OK(MPI_Isend(out, LARGE, MPI_INT, me, 11, inter, &requests[1]));
    OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
    HOLDS(in, BYTES(LARGE), seed(!side));
    /* Not asked for before it is there. */
    OK(MPI_Issend(out, 100, MPI_INT, me, 12, inter, &requests[0]));
    OK(MPI_Isend(out, LARGE, MPI_INT, me, 13, inter, &requests[1]));
    OK(MPI_Probe(me, 13, inter, &status));
    OK(MPI_Get_count(&status, MPI_INT, &count));
    SAME(count, LARGE);
    OK(MPI_Recv(in, LARGE, MPI_INT, me, 13, inter, MPI_STATUS_IGNORE));
#ifndef LAM_MPI
    MPI_Message message;
    OK(MPI_Mprobe(me, 12, inter, &message, &status));
    OK(MPI_Mrecv(in, 100, MPI_INT, &message, &status));
#else
    OK(MPI_Recv(in, 100, MPI_INT, me, 12, inter, &status));
#endif
    OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
    HOLDS(in, BYTES(100), seed(!side));
}

/* What the library asks of a datatype that it sees for the first time. */
static void looked_into(MPI_Datatype type UNUSED)
{
#ifdef KIT_NATIVE
    static int type_keyval = MPI_KEYVAL_INVALID;
    int integers, addresses, types, combiner, ints[64];
    MPI_Aint aints[16];
    MPI_Datatype inner[16];
    MPI_Request request;
    if (type_keyval == MPI_KEYVAL_INVALID)
        OK(MPI_Type_create_keyval(MPI_TYPE_NULL_COPY_FN, MPI_TYPE_NULL_DELETE_FN, &type_keyval, NULL));
    OK(MPI_Send_init(out, 1, type, 0, 0, private, &request));
    OK(MPI_Request_free(&request));
    OK(MPI_Type_get_envelope(type, &integers, &addresses, &types, &combiner));
    OK(MPI_Type_get_contents(type, integers, addresses, types, ints, aints, inner));
    for (int i = 0; i < types; ++i) {
        OK(MPI_Type_get_envelope(inner[i], &integers, &addresses, &types, &combiner));
        if (combiner != MPI_COMBINER_NAMED) OK(MPI_Type_free(&inner[i]));
    }
    OK(MPI_Type_set_attr(type, type_keyval, NULL));
#endif
}

static void datatypes(void)
{
    MPI_Datatype column, both, of[2];
    MPI_Request requests[2];
    int lengths[2] = {1, 2};
    MPI_Aint at[2] = {0, 24000};
    OK(MPI_Type_vector(50, 1, 3 + (int)(round_seed % 5), MPI_INT, &column));
    of[0] = column, of[1] = MPI_INT;
    OK(MPI_Type_create_struct(2, lengths, at, of, &both));
    OK(MPI_Type_commit(&column));
    OK(MPI_Type_commit(&both));
    looked_into(column);
    looked_into(both);
    if (!CONTROL) {
        OK(MPI_Irecv(in, 1, column, me, 20, inter, &requests[0]));
        OK(MPI_Isend(out, 1, column, me, 20, inter, &requests[1]));
    }
    OK(MPI_Type_free(&column)); /* while it is under way */
    if (!CONTROL) {
        OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
        OK(MPI_Sendrecv(out, 2, both, me, 21, in, 2, both, me, 21, inter, MPI_STATUS_IGNORE));
    }
    OK(MPI_Type_free(&both));
}

static void persistent(void)
{
    MPI_Request requests[2];
    OK(MPI_Recv_init(in, 1000, MPI_INT, me, 30, inter, &requests[0]));
    OK(MPI_Send_init(out, 1000, MPI_INT, me, 30, inter, &requests[1]));
    for (int i = 0; i < 2; ++i) {
        OK(MPI_Startall(2, requests));
        OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
    }
    HOLDS(in, BYTES(1000), seed(!side));
    for (int i = 0; i < 2; ++i) OK(MPI_Request_free(&requests[i]));
}

static void given_up(void)
{
    MPI_Request request;
    MPI_Status status;
    int flag = 0;
    OK(MPI_Irecv(in, 1, MPI_INT, me, 40, inter, &request));
    OK(MPI_Cancel(&request));
    OK(MPI_Wait(&request, &status));
    OK(MPI_Test_cancelled(&status, &flag));
    SAME(flag, 1);
    OK(MPI_Isend(out, LARGE, MPI_INT, me, 41, inter, &request));
    OK(MPI_Request_free(&request));
    OK(MPI_Isend(out, 10, MPI_INT, me, 42, inter, &request));
    OK(MPI_Request_free(&request));
    OK(MPI_Recv(in, 10, MPI_INT, me, 42, inter, MPI_STATUS_IGNORE));
    OK(MPI_Recv(in, LARGE, MPI_INT, me, 41, inter, MPI_STATUS_IGNORE));
    HOLDS(in, BYTES(LARGE), seed(!side));
    meet();
}

static void buffered(void)
{
    static char space[4000 + MPI_BSEND_OVERHEAD];
    void *back;
    int size;
    OK(MPI_Buffer_attach(space, sizeof space));
    OK(MPI_Bsend(out, 900, MPI_INT, me, 50, inter));
    OK(MPI_Recv(in, 900, MPI_INT, me, 50, inter, MPI_STATUS_IGNORE));
    HOLDS(in, BYTES(900), seed(!side));
    OK(MPI_Buffer_detach(&back, &size));
}

static int gone(MPI_Comm comm, int key, void *value, void *extra)
{
    (void)comm, (void)key, (void)value, (void)extra;
    ++deleted;
    return MPI_SUCCESS;
}

static void on_error(MPI_Comm *comm, int *code, ...)
{
    (void)comm, (void)code;
    ++heard;
}

/* Groups, attributes, error handlers. */
static void around(void)
{
    MPI_Group group;
    MPI_Errhandler handler;
    int size = -1, brief, before = heard;
    if (!CONTROL) {
        OK(MPI_Comm_remote_group(inter, &group));
        OK(MPI_Group_size(group, &size));
        CHECK(size > 0);
        OK(MPI_Group_free(&group));
    }
    OK(MPI_Comm_group(inter, &group));
    OK(MPI_Group_free(&group));
    OK(MPI_Comm_set_attr(inter, keyval, &size)); /* there until the end */
    OK(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, gone, &brief, NULL));
    OK(MPI_Comm_set_attr(inter, brief, &size));
    OK(MPI_Comm_delete_attr(inter, brief));
    OK(MPI_Comm_free_keyval(&brief));
    OK(MPI_Comm_create_errhandler(on_error, &handler));
    OK(MPI_Comm_set_errhandler(inter, handler));
    MPI_Send(out, 1, MPI_INT, 4711, 0, inter); /* nobody */
    SAME(heard - before, 1);
    if (round_seed % 2) OK(MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN));
    OK(MPI_Errhandler_free(&handler));
}

/* The end: with nothing under way, or with messages that arrive after it. */
static void freed(void)
{
    MPI_Request requests[2];
    int before = deleted;
    if (round_seed % 3 == 0 && !CONTROL) {
        OK(MPI_Irecv(in, LARGE, MPI_INT, me, 60, inter, &requests[0]));
        OK(MPI_Isend(out, LARGE, MPI_INT, me, 60, inter, &requests[1]));
        OK(MPI_Comm_free(&inter));
        OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
    } else
        OK(MPI_Comm_free(&inter));
    CHECK(inter == MPI_COMM_NULL);
    SAME(deleted - before, 1);
}

/* Communicators made of this one. */
static void children(void)
{
    MPI_Comm parent = inter;
    if (round_seed % 4) OK(MPI_Comm_dup(parent, &inter));
    else OK(MPI_Comm_split(parent, 3, 0, &inter));
    if (!CONTROL) plain();
    OK(MPI_Comm_free(&inter));
    inter = parent;
}

static void use(void)
{
    if (!CONTROL) {
        greet();
        plain();
        persistent();
        given_up();
        if (round_seed % 8 == 0) buffered();
    }
    datatypes();
    around();
    children();
}

/* ---- how it is made ---- */

#ifdef KIT_NATIVE
static void hears(MPI_Comm comm)
{
    MPI_Errhandler handler;
    OK(MPI_Comm_create_errhandler(on_error, &handler));
    OK(MPI_Comm_set_errhandler(comm, handler));
    OK(MPI_Errhandler_free(&handler));
}

static MPI_Comm split(MPI_Comm comm)
{
    MPI_Comm made;
    OK(MPI_Comm_split(comm, 0, 0, &made));
    hears(made);
    return made;
}

static void make(int round UNUSED)
{
    int zero = 0, worst;
    OK(MPI_Allreduce(&zero, &worst, 1, MPI_INT, MPI_MAX, private));
    inter = split(private);
    OK(MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN));
}

static void begin(char **argv UNUSED) { private = split(MPI_COMM_WORLD); }
static void end(void) { OK(MPI_Comm_free(&private)); }
#else
static const char *name, *other;
static int handle, every;

static void make(int round)
{
    char brief[64];
    int own;
    if (every == 0 || round % every != every / 2) {
        OK(MPI_Conn_intercomm_create(handle, other, &inter));
        return;
    }
    /* In turn one side has a name of this round's own, while the other's name stands. */
    int turn = round / every % 2;
    snprintf(brief, sizeof brief, "%s-%d", turn == side ? name : other, round);
    if (turn == side) {
        OK(MPI_Conn_register(brief, MPI_COMM_WORLD, &own));
        OK(MPI_Conn_intercomm_create(own, other, &inter));
        OK(MPI_Conn_remove(own));
    } else
        OK(MPI_Conn_intercomm_create(handle, brief, &inter));
}

static void begin(char **argv)
{
    name = argv[1], other = argv[2], side = atoi(argv[3]), every = atoi(argv[6]);
    OK(MPI_Conn_register(name, MPI_COMM_WORLD, &handle));
}

static void end(void) { OK(MPI_Conn_remove(handle)); }
#endif

int main(int argc, char **argv)
{
    struct having then = {0}, now = {0};
    prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0); /* memory is counted by the page */
    MPI_Init(&argc, &argv);
    if (argc != 7) {
        fprintf(stderr, "rounds NAME OTHER SIDE FIRST ROUNDS EVERY\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    int first = atoi(argv[4]), rounds = atoi(argv[5]);
    kit_label = argv[1];
    MPI_Comm_rank(MPI_COMM_WORLD, &kit_rank);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    out = kit_alloc(BYTES(LARGE)), in = kit_alloc(BYTES(LARGE));
    OK(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, gone, &keyval, NULL));
    begin(argv);
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &me));
    long free_before = 0;
    double start = kit_ms();
    for (int round = 1; round <= rounds; ++round) {
        round_seed = (uint64_t)round;
        make(round);
        use();
        if (round == first) then = look_together(meet, round, NULL);
        if (round == rounds) now = look_together(meet, round, &then);
        freed();
        if (round == first - 1) free_before = communicators(); /* counting takes memory too */
    }
    no_more(&now, &then);
    SAME(now.threads, then.threads);
    SAME(communicators(), free_before);
    printf("GREW %ld %ld\nTOOK %.0f us a round\n", now.resident_kib - then.resident_kib,
           now.allocated_kib - then.allocated_kib, (kit_ms() - start) * 1e3 / rounds);
    end();
    free(out), free(in);
    OK(MPI_Comm_free_keyval(&keyval));
    int result = kit_end();
    MPI_Finalize();
    return result;
}
