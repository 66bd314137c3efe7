/* The edges of what MPI promises, one case a run: `edges CASE MINE THEIRS SIDE`, one job a side. Side 0 goes to the
 * edge; side 1 is there for it. Unless a case says otherwise, errors that no communicator of ours should see are fatal. */
#include "kit.h"
#include <pthread.h>
#include <signal.h>

static int me, size, side, handle, provided;
static const char *my_name, *their_name;
static MPI_Comm inter = MPI_COMM_NULL;

static MPI_Comm join(void)
{
    MPI_Comm fresh = MPI_COMM_NULL;
    OK(MPI_Conn_intercomm_create(handle, their_name, &fresh));
    OK(MPI_Comm_set_errhandler(fresh, MPI_ERRORS_RETURN));
    return fresh;
}

/* One word each way: the communicator works. */
static void swap(MPI_Comm over, int word)
{
    int in = -1, out = 100 * word + side;
    OK(MPI_Sendrecv(&out, 1, MPI_INT, me, 1, &in, 1, MPI_INT, me, 1, over, MPI_STATUS_IGNORE));
    SAME(in, 100 * word + !side);
}

/* An error handler that counts, and keeps what it was last called with. */
static int handler_calls, handler_code;
static void handler(MPI_Comm *comm, int *code, ...)
{
    (void)comm;
    ++handler_calls;
    handler_code = *code;
}
static MPI_Errhandler counting(MPI_Comm comm)
{
    MPI_Errhandler made;
    OK(MPI_Comm_create_errhandler(handler, &made));
    OK(MPI_Comm_set_errhandler(comm, made));
    handler_calls = handler_code = 0;
    return made;
}

/* A call that must fail, once and by the counting handler. */
#define RAISED(call, wanted) \
    do { \
        int kit_calls = handler_calls; \
        REFUSED(call, wanted); \
        SAME(handler_calls, kit_calls + 1); \
        SAME(kit_class(handler_code), wanted); \
    } while (0)

/* What belongs to no communicator of ours is to return too. */
static void all_return(void)
{
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
}

/* ---- freeing ---- */

/* The delete callback of an attribute: refuses the first time, says good-bye to the other job the second. */
static int deletes;
static int on_delete(MPI_Comm comm, int keyval, void *value, void *extra)
{
    int flag = -1, n = -1, word = 4711;
    (void)keyval, (void)extra;
    CHECK(comm == inter);
    SAME(*(int *)value, 77);
    OK(MPI_Comm_test_inter(comm, &flag));
    SAME(flag, 1);
    OK(MPI_Comm_remote_size(comm, &n));
    SAME(n, size);
    if (++deletes == 1) return MPI_ERR_OTHER;
    OK(MPI_Send(&word, 1, MPI_INT, me, 2, comm));
    return MPI_SUCCESS;
}
static void free_callback(void)
{
    int keyval, value = 77, word = -1, flag = -1;
    all_return(); /* MPICH tells on MPI_COMM_WORLD that a callback has refused */
    if (side == 0) {
        OK(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, on_delete, &keyval, NULL));
        OK(MPI_Comm_set_attr(inter, keyval, &value));
#ifdef LAM_MPI
        deletes = 1; /* it frees the communicator, whatever a callback says */
#else
        MPI_Comm before = inter;
        CHECK(MPI_Comm_free(&inter) != MPI_SUCCESS, "freed though a callback refused");
        SAME(deletes, 1);
        CHECK(inter == before);
        OK(MPI_Comm_test_inter(inter, &flag));
        SAME(flag, 1);
#endif
    }
    swap(inter, 3);
    if (side == 0) {
        int *there = NULL;
        OK(MPI_Comm_get_attr(inter, keyval, &there, &flag));
        if (!flag) OK(MPI_Comm_set_attr(inter, keyval, &value)); /* MPICH forgets it, refused or not */
        OK(MPI_Comm_free(&inter));
        SAME(deletes, 2);
        OK(MPI_Comm_free_keyval(&keyval));
    } else {
        OK(MPI_Recv(&word, 1, MPI_INT, me, 2, inter, MPI_STATUS_IGNORE));
        SAME(word, 4711);
        OK(MPI_Comm_free(&inter));
    }
    CHECK(inter == MPI_COMM_NULL);
}

/* One thread waits for a request, another frees its communicator: the request completes as if nothing had happened. */
static MPI_Request awaited;
static int awaited_word, waiting_round;
static void *waiter(void *sign)
{
    MPI_Status status;
    int index = -1, flag = 0;
    kit_write(sign, "");
    switch (waiting_round % 4) {
    case 0: OK(MPI_Wait(&awaited, &status)); break;
    case 1: OK(MPI_Waitall(1, &awaited, &status)); break;
    case 2: OK(MPI_Waitany(1, &awaited, &index, &status)); break;
    default:
        while (!flag) POLL(MPI_Test(&awaited, &flag, &status));
    }
    SAME(status.MPI_SOURCE, me);
    SAME(status.MPI_TAG, 4);
    CHECK(awaited == MPI_REQUEST_NULL);
    return NULL;
}
static void free_while_waiting(void)
{
    enum { ROUNDS = 24 };
    SAME(provided, MPI_THREAD_MULTIPLE);
    for (waiting_round = 0; waiting_round < ROUNDS; ++waiting_round) {
        MPI_Comm fresh = join();
        if (side == 0) {
            char waits[4096];
            pthread_t thread;
            snprintf(waits, sizeof waits, "%s", kit_path("waits-%d", waiting_round));
            awaited_word = -1;
            OK(MPI_Irecv(&awaited_word, 1, MPI_INT, me, 4, fresh, &awaited));
            SAME(pthread_create(&thread, NULL, waiter, waits), 0);
            kit_await(waits);
            kit_sleep_ms(waiting_round); /* freed while it enters, while it spins, when it sleeps */
            OK(MPI_Comm_free(&fresh));
            CHECK(fresh == MPI_COMM_NULL);
            kit_write(kit_path("freed-%d", waiting_round), "");
            SAME(pthread_join(thread, NULL), 0);
            SAME(awaited_word, 1000 + waiting_round);
        } else {
            int word = 1000 + waiting_round;
            kit_await(kit_path("freed-%d", waiting_round));
            OK(MPI_Send(&word, 1, MPI_INT, me, 4, fresh));
            OK(MPI_Comm_free(&fresh));
        }
        swap(inter, waiting_round);
    }
}

/* ---- datatypes ---- */

static void uncommitted(void)
{
    int pair[2] = {-1, -1}, n = -1, flag;
    MPI_Datatype two;
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Status status;
    MPI_Errhandler made = counting(inter);
    OK(MPI_Type_contiguous(2, MPI_INT, &two));
    if (side == 0) {
        RAISED(MPI_Send(pair, 1, two, me, 5, inter), MPI_ERR_TYPE);
        RAISED(MPI_Ssend(pair, 1, two, me, 5, inter), MPI_ERR_TYPE);
        RAISED(MPI_Isend(pair, 1, two, me, 5, inter, &request), MPI_ERR_TYPE);
        RAISED(MPI_Issend(pair, 1, two, me, 5, inter, &request), MPI_ERR_TYPE);
        RAISED(MPI_Recv(pair, 1, two, me, 5, inter, &status), MPI_ERR_TYPE);
        RAISED(MPI_Irecv(pair, 1, two, me, 5, inter, &request), MPI_ERR_TYPE);
        RAISED(MPI_Sendrecv(pair, 1, two, me, 5, pair, 1, MPI_INT, MPI_PROC_NULL, 5, inter, &status), MPI_ERR_TYPE);
        RAISED(MPI_Sendrecv(pair, 1, MPI_INT, MPI_PROC_NULL, 5, pair, 1, two, me, 5, inter, &status), MPI_ERR_TYPE);
    }
    swap(inter, 5);
    /* Nothing of it has reached the other side, and committed it is as good as any. */
    OK(MPI_Iprobe(me, 5, inter, &flag, &status));
    SAME(flag, 0);
    swap(inter, 6);
    OK(MPI_Type_commit(&two));
    int out[2] = {10 + side, 20 + side};
    OK(MPI_Sendrecv(out, 1, two, me, 6, pair, 1, two, me, 6, inter, &status));
    OK(MPI_Get_count(&status, two, &n));
    SAME(n, 1);
    SAME(pair[0], 10 + !side);
    SAME(pair[1], 20 + !side);
    OK(MPI_Type_free(&two));
    OK(MPI_Errhandler_free(&made));
}

/* Three threads send by datatypes that were never seen before; the error handler of the program stands all the while. */
enum { SENDERS = 3, SENT = 3000 };
static int senders_left = SENDERS;
static void *sender(void *which)
{
    int tag = *(int *)which, words[8];
    for (int i = 0; i < SENT; ++i) {
        MPI_Datatype type;
        words[0] = i, words[2] = tag;
        OK(MPI_Type_vector(2, 1, 2, MPI_INT, &type));
        OK(MPI_Type_commit(&type));
        OK(MPI_Send(words, 1, type, i % 10 ? MPI_PROC_NULL : me, tag, inter));
        OK(MPI_Type_free(&type));
    }
    __atomic_sub_fetch(&senders_left, 1, __ATOMIC_SEQ_CST);
    return NULL;
}
static void handler_kept(void)
{
    SAME(provided, MPI_THREAD_MULTIPLE);
    if (side) {
        for (int i = 0; i < SENT; i += 10)
            for (int tag = 0; tag < SENDERS; ++tag) {
                int words[2] = {-1, -1};
                OK(MPI_Recv(words, 2, MPI_INT, me, tag, inter, MPI_STATUS_IGNORE));
                SAME(words[0], i);
                SAME(words[1], tag);
            }
        swap(inter, 7);
        return;
    }
    pthread_t threads[SENDERS];
    int tags[SENDERS], lost = 0, word = 0;
    MPI_Errhandler made = counting(inter), got;
    for (int i = 0; i < SENDERS; ++i) {
        tags[i] = i;
        SAME(pthread_create(&threads[i], NULL, sender, &tags[i]), 0);
    }
    while (__atomic_load_n(&senders_left, __ATOMIC_SEQ_CST)) {
        POLL(MPI_Comm_get_errhandler(inter, &got));
        lost += got != made;
        POLL(MPI_Errhandler_free(&got));
    }
    for (int i = 0; i < SENDERS; ++i) SAME(pthread_join(threads[i], NULL), 0);
    SAME(lost, 0);
    OK(MPI_Comm_get_errhandler(inter, &got));
    CHECK(got == made);
    SAME(handler_calls, 0);
    RAISED(MPI_Send(&word, 1, MPI_INT, size, 0, inter), MPI_ERR_RANK);
    swap(inter, 7);
}

/* ---- requests ---- */

/* What cannot be done with a request of ours is told by the inter-communicator's handler; the request stands. */
static void requests(void)
{
    int in = -1, out = 40 + side;
    MPI_Request request, two[2];
    MPI_Status status;
    MPI_Errhandler made = counting(inter);
    OK(MPI_Irecv(&in, 1, MPI_INT, me, 8, inter, &request));
    two[0] = MPI_REQUEST_NULL;
    MPI_Request before = two[1] = request;
    RAISED(MPI_Start(&request), MPI_ERR_REQUEST);
    RAISED(MPI_Startall(1, &two[1]), MPI_ERR_REQUEST);
    OK(MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN));
    REFUSED(MPI_Start(&request), MPI_ERR_REQUEST);
    REFUSED(MPI_Startall(1, &two[1]), MPI_ERR_REQUEST);
    CHECK(request == before && two[1] == before);
    OK(MPI_Send(&out, 1, MPI_INT, me, 8, inter));
    OK(MPI_Wait(&request, &status));
    SAME(in, 40 + !side);
    SAME(status.MPI_SOURCE, me);
    OK(MPI_Errhandler_free(&made));
}

/* A request that outlives its communicator fails by the handler which that one had. */
static void fails_after_free(void)
{
    for (int way = 0; way < 6; ++way) {
        MPI_Comm fresh = join();
        int words[4] = {1, 2, 3, 4}, room = -1, index, n, flag = 0;
        if (side == 0) {
            MPI_Request request;
            MPI_Status status;
            status.MPI_ERROR = MPI_SUCCESS;
            OK(MPI_Irecv(&room, 1, MPI_INT, me, 9, fresh, &request));
            MPI_Errhandler made = counting(fresh);
            OK(MPI_Errhandler_free(&made)); /* the communicator has it still, then the request */
            OK(MPI_Comm_free(&fresh));
            kit_write(kit_path("gone-%d", way), "");
            switch (way) {
            case 0: RAISED(MPI_Wait(&request, &status), MPI_ERR_TRUNCATE); break;
            case 1: RAISED(MPI_Waitany(1, &request, &index, &status), MPI_ERR_TRUNCATE); break;
            case 2: RAISED(MPI_Waitall(1, &request, &status), MPI_ERR_IN_STATUS); break;
            case 3: RAISED(MPI_Waitsome(1, &request, &n, &index, &status), MPI_ERR_IN_STATUS); break;
            default: {
                int code = MPI_SUCCESS;
                while (!flag && code == MPI_SUCCESS)
                    code = way == 4 ? MPI_Test(&request, &flag, &status)
                                    : MPI_Testany(1, &request, &index, &flag, &status);
                SAME(kit_class(code), MPI_ERR_TRUNCATE);
                SAME(handler_calls, 1);
            }
            }
            if (way == 2 || way == 3) SAME(kit_class(status.MPI_ERROR), MPI_ERR_TRUNCATE);
            CHECK(request == MPI_REQUEST_NULL);
        } else {
            kit_await(kit_path("gone-%d", way));
            OK(MPI_Send(words, 4, MPI_INT, me, 9, fresh));
            OK(MPI_Comm_free(&fresh));
        }
        swap(inter, way);
    }
}

/* A handle that was never a request beside one of ours: an error, at once, and ours is still there. */
static void bad_request(void)
{
    int in = -1, out = 50, index, n, indices[2], flag;
    MPI_Status statuses[2];
    MPI_Request both[2], ours;
    all_return();
    if (side) {
        kit_await(kit_path("asked"));
        OK(MPI_Send(&out, 1, MPI_INT, me, 10, inter));
        return;
    }
    OK(MPI_Irecv(&in, 1, MPI_INT, me, 10, inter, &ours));
    for (int place = 0; place < 2; ++place) {
        both[place] = ours;
#if defined(OPEN_MPI) || defined(LAM_MPI) || defined(MPI_ABI)
        both[!place] = NULL;
#else
        both[!place] = 12345;
#endif
        REFUSED(MPI_Testany(2, both, &index, &flag, statuses), MPI_ERR_REQUEST);
        REFUSED(MPI_Waitany(2, both, &index, statuses), MPI_ERR_REQUEST);
#define FAILS(call) \
    do { \
        int kit_code = (call), kit_is = kit_class(kit_code); \
        CHECK(kit_is == MPI_ERR_REQUEST || kit_is == MPI_ERR_IN_STATUS, "class %d: %s", kit_is, kit_error(kit_code)); \
    } while (0)
        FAILS(MPI_Testsome(2, both, &n, indices, statuses));
        FAILS(MPI_Waitsome(2, both, &n, indices, statuses));
        /* Ours is pending, which is an answer too. */
        flag = 0;
        if (MPI_Testall(2, both, &flag, statuses) == MPI_SUCCESS) SAME(flag, 0);
        CHECK(both[place] == ours);
    }
    kit_write(kit_path("asked"), "");
    FAILS(MPI_Waitall(2, both, statuses));
    if (both[1] != MPI_REQUEST_NULL) OK(MPI_Wait(&both[1], statuses));
    SAME(in, 50);
}

/* ---- arguments ---- */

/* No place for the result. */
static void nulls(void)
{
    int word = 1, result = -1, n, flag, index, *value;
    MPI_Status status;
    MPI_Group group;
    MPI_Request request;
    MPI_Errhandler made = counting(inter);
    RAISED(MPI_Comm_remote_size(inter, NULL), MPI_ERR_ARG);
    RAISED(MPI_Comm_test_inter(inter, NULL), MPI_ERR_ARG);
    RAISED(MPI_Comm_remote_group(inter, NULL), MPI_ERR_ARG);
    RAISED(MPI_Comm_get_attr(inter, MPI_TAG_UB, NULL, &flag), MPI_ERR_ARG);
    RAISED(MPI_Comm_get_attr(inter, MPI_TAG_UB, &value, NULL), MPI_ERR_ARG);
    RAISED(MPI_Comm_compare(inter, inter, NULL), MPI_ERR_ARG);
    RAISED(MPI_Comm_compare(inter, MPI_COMM_WORLD, NULL), MPI_ERR_ARG);
    RAISED(MPI_Iprobe(me, 11, inter, NULL, &status), MPI_ERR_ARG);
    RAISED(MPI_Irecv(&word, 1, MPI_INT, me, 11, inter, NULL), MPI_ERR_ARG);
    RAISED(MPI_Isend(&word, 1, MPI_INT, me, 11, inter, NULL), MPI_ERR_ARG);
    RAISED(MPI_Issend(&word, 1, MPI_INT, me, 11, inter, NULL), MPI_ERR_ARG);

    RAISED(MPI_Comm_compare(inter, MPI_COMM_NULL, &result), MPI_ERR_COMM);
    RAISED(MPI_Comm_compare(MPI_COMM_NULL, inter, &result), MPI_ERR_COMM);

    word = -1;
    OK(MPI_Irecv(&word, 1, MPI_INT, me, 12, inter, &request));
    MPI_Request before = request;
    RAISED(MPI_Test(&request, NULL, &status), MPI_ERR_ARG);
    RAISED(MPI_Testall(1, &request, NULL, &status), MPI_ERR_ARG);
    RAISED(MPI_Testany(1, &request, NULL, &flag, &status), MPI_ERR_ARG);
    RAISED(MPI_Testany(1, &request, &index, NULL, &status), MPI_ERR_ARG);
    RAISED(MPI_Testsome(1, &request, NULL, &index, &status), MPI_ERR_ARG);
    RAISED(MPI_Testsome(1, &request, &n, NULL, &status), MPI_ERR_ARG);
    RAISED(MPI_Waitany(1, &request, NULL, &status), MPI_ERR_ARG);
    RAISED(MPI_Waitsome(1, &request, NULL, &index, &status), MPI_ERR_ARG);
    RAISED(MPI_Waitsome(1, &request, &n, NULL, &status), MPI_ERR_ARG);
    CHECK(request == before);

    all_return(); /* where groups report */
    OK(MPI_Comm_remote_group(inter, &group));
    REFUSED(MPI_Group_size(group, NULL), MPI_ERR_ARG);
    REFUSED(MPI_Group_rank(group, NULL), MPI_ERR_ARG);
    OK(MPI_Group_free(&group));

    /* What was refused has neither sent nor received anything. */
    swap(inter, 11);
    OK(MPI_Iprobe(me, 11, inter, &flag, &status));
    SAME(flag, 0);
    swap(inter, 12);
    n = 60 + side;
    OK(MPI_Send(&n, 1, MPI_INT, me, 12, inter));
    OK(MPI_Wait(&request, &status));
    SAME(word, 60 + !side);
    OK(MPI_Errhandler_free(&made));
}

/* The largest tag is one that both sides can carry, and far beyond the 32767 of the standard. */
static void largest_tag(void)
{
    int *bound = NULL, *deprecated = NULL, flag = 0, theirs = -1, in = -1, out = 70 + side;
    MPI_Status status;
    OK(MPI_Comm_get_attr(inter, MPI_TAG_UB, &bound, &flag));
    CHECK(flag && bound);
    CHECK(*bound > 1 << 27, "MPI_TAG_UB is %d", *bound);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
    OK(MPI_Attr_get(inter, MPI_TAG_UB, &deprecated, &flag));
#pragma GCC diagnostic pop
    CHECK(flag && deprecated && *deprecated == *bound);
    OK(MPI_Sendrecv(bound, 1, MPI_INT, me, 1, &theirs, 1, MPI_INT, me, 1, inter, MPI_STATUS_IGNORE));
    SAME(theirs, *bound);
    for (int any = 0; any < 2; ++any) {
        OK(MPI_Sendrecv(&out, 1, MPI_INT, me, *bound, &in, 1, MPI_INT, me, any ? MPI_ANY_TAG : *bound, inter,
                        &status));
        SAME(in, 70 + !side);
        SAME(status.MPI_TAG, *bound);
    }
    OK(MPI_Send(&out, 1, MPI_INT, me, *bound - 1, inter));
    OK(MPI_Probe(me, *bound - 1, inter, &status));
    SAME(status.MPI_TAG, *bound - 1);
    OK(MPI_Recv(&in, 1, MPI_INT, me, *bound - 1, inter, &status));
    if (*bound < 0x7fffffff) {
        MPI_Errhandler made = counting(inter);
        MPI_Request request;
        RAISED(MPI_Send(&out, 1, MPI_INT, me, *bound + 1, inter), MPI_ERR_TAG);
        RAISED(MPI_Isend(&out, 1, MPI_INT, me, *bound + 1, inter, &request), MPI_ERR_TAG);
        OK(MPI_Errhandler_free(&made));
    }
}

/* ---- set-up, again after a time-out: side 0 is the first to try. `inter` is not made before. ---- */

static void timed_out(void)
{
    int class = -1;
    OK(MPI_Conn_error_class(MPI_CONN_ERR_TIMEOUT, &class));
    double start = kit_ms(), limit = atof(getenv("MPI_CONNECT_TIMEOUT")) * 1e3;
    int code = MPI_Conn_intercomm_create(handle, their_name, &inter);
    CHECK(code != MPI_SUCCESS, "joined before the time");
    SAME(kit_class(code), class);
    CHECK(inter == MPI_COMM_NULL);
    CHECK(kit_ms() - start < limit + 5000, "told after %.0f ms", kit_ms() - start);
}

static void retry(void)
{
    all_return();
    /* Each in its turn, while the other has not come: then both. */
    for (int turn = 0; turn < 2; ++turn) {
        if (turn == side) {
            timed_out();
            MPI_Barrier(MPI_COMM_WORLD);
            if (me == 0) kit_write(kit_path("too-late-%d", turn), "");
        } else
            kit_await(kit_path("too-late-%d", turn));
    }
    inter = join();
    swap(inter, 13);
}

/* One comes at the very moment when the other's patience ends, a little before it or after: they agree on whether they
 * have met, and if not, then at the second try of the first. */
static void retry_at_once(void)
{
    static const int late[] = {1985, 1998, 2001, 2010};
    int class = -1;
    all_return();
    OK(MPI_Conn_error_class(MPI_CONN_ERR_TIMEOUT, &class));
    for (int round = 0; round < 4; ++round) {
        int tries = 0, code;
        if (side == 0) {
            kit_await(kit_path("here-%d", round));
            kit_write(kit_path("waiting-%d", round), "");
        } else {
            kit_write(kit_path("here-%d", round), "");
            kit_await(kit_path("waiting-%d", round));
            kit_sleep_ms(late[round]); /* what the case is about */
        }
        while ((code = MPI_Conn_intercomm_create(handle, their_name, &inter)) != MPI_SUCCESS && ++tries < 3)
            SAME(kit_class(code), class);
        CHECK(tries <= (side ? 0 : 1), "%d more tries: %s", tries, kit_error(code));
        if (code != MPI_SUCCESS) return;
        OK(MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN));
        swap(inter, 20 + round);
        OK(MPI_Comm_free(&inter));
    }
}

/* Whether all of a process is stopped, as the system says it. */
static int is_stopped(int pid)
{
    char path[64], line[256], state = 0;
    snprintf(path, sizeof path, "/proc/%d/status", pid);
    FILE *f = fopen(path, "r");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "State: %c", &state) == 1) break;
    if (f) fclose(f);
    return state == 'T';
}

/* Side 1 is stopped, from before side 0's first try until well after it: silent, not dead. */
static void retry_stopped(int seconds)
{
    int pid = 0;
    all_return();
    if (side) {
        char text[32];
        snprintf(text, sizeof text, "%d", (int)getpid());
        kit_write(kit_path("stopping"), text);
        raise(SIGSTOP);
    } else {
        kit_await(kit_path("stopping"));
        FILE *f = fopen(kit_path("stopping"), "r");
        CHECK(f && fscanf(f, "%d", &pid) == 1);
        if (f) fclose(f);
        while (!is_stopped(pid)) kit_sleep_ms(2);
        double start = kit_ms();
        timed_out();
        while (kit_ms() - start < seconds * 1e3) kit_sleep_ms(10); /* what the case is about */
        SAME(kill(pid, SIGCONT), 0);
    }
    double start = kit_ms();
    inter = join();
    printf("JOINED after %.0f ms\n", kit_ms() - start);
    swap(inter, 15);
}
static void retry_stopped_briefly(void) { retry_stopped(3); }
static void retry_stopped_long(void) { retry_stopped(14); }

static const struct {
    const char *name;
    void (*run)(void);
    int joins; /* the inter-communicator is made before */
} cases[] = {
    {"free-callback", free_callback, 1},
    {"free-while-waiting", free_while_waiting, 1},
    {"uncommitted", uncommitted, 1},
    {"handler-kept", handler_kept, 1},
    {"requests", requests, 1},
    {"fails-after-free", fails_after_free, 1},
    {"bad-request", bad_request, 1},
    {"nulls", nulls, 1},
    {"largest-tag", largest_tag, 1},
    {"retry", retry, 0},
    {"retry-at-once", retry_at_once, 0},
    {"retry-stopped", retry_stopped_briefly, 0},
    {"retry-stopped-long", retry_stopped_long, 0},
};

int main(int argc, char **argv)
{
    size_t at = 0;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    while (argc == 5 && at < sizeof cases / sizeof cases[0] && strcmp(cases[at].name, argv[1])) ++at;
    if (argc != 5 || at == sizeof cases / sizeof cases[0]) {
        fprintf(stderr, "edges CASE MINE THEIRS SIDE\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    kit_label = my_name = argv[2];
    their_name = argv[3];
    side = atoi(argv[4]);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    kit_rank = me;
    OK(MPI_Conn_register(my_name, MPI_COMM_WORLD, &handle));
    if (cases[at].joins) inter = join();
    cases[at].run();
    if (inter != MPI_COMM_NULL) OK(MPI_Comm_free(&inter));
    OK(MPI_Conn_remove(handle));
    int result = kit_end();
    MPI_Finalize();
    return result;
}
