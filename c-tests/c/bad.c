/* Bad input, one case a run: `bad CASE [argument...]`. The harness says which name is whose. */
#include "kit.h"
#include <sys/resource.h>

static int me, size;
static char **arg;

static void errors_return(void)
{
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
}

static MPI_Comm join(const char *mine, const char *theirs, int *handle)
{
    MPI_Comm inter = MPI_COMM_NULL;
    OK(MPI_Conn_register(mine, MPI_COMM_WORLD, handle));
    OK(MPI_Conn_intercomm_create(*handle, theirs, &inter));
    return inter;
}

/* Every argument that can be wrong. */
static void arguments(void)
{
    static char longest[256], longer[257], huge[70000];
    int handle = -1, other = -1;
    MPI_Comm inter = MPI_COMM_NULL;
    errors_return();
    memset(longest, 'n', 255);
    memset(longer, 'n', 256);
    memset(huge, 'n', sizeof huge - 1);

    FAILS_SAYING(MPI_Conn_register(NULL, MPI_COMM_WORLD, &handle), "MPI_Conn_register");
    FAILS_SAYING(MPI_Conn_register("", MPI_COMM_WORLD, &handle), "MPI_Conn_register");
    FAILS_SAYING(MPI_Conn_register(longer, MPI_COMM_WORLD, &handle), "MPI_Conn_register", "255");
    FAILS_SAYING(MPI_Conn_register(huge, MPI_COMM_WORLD, &handle), "MPI_Conn_register", "255");
    FAILS_SAYING(MPI_Conn_register("not \xff\xfe UTF-8", MPI_COMM_WORLD, &handle), "MPI_Conn_register", "UTF-8");
    FAILS_SAYING(MPI_Conn_register("cut \xc3", MPI_COMM_WORLD, &handle), "MPI_Conn_register", "UTF-8");
    FAILS_SAYING(MPI_Conn_register("no-comm", MPI_COMM_NULL, &handle), "MPI_Conn_register");
    FAILS_SAYING(MPI_Conn_register("no-handle", MPI_COMM_WORLD, NULL), "MPI_Conn_register");

    static const int unknown[] = {-1, 0x7fffffff, -2147483647 - 1, 12345678};
    for (int i = 0; i < 4; ++i) {
        FAILS_SAYING(MPI_Conn_intercomm_create(unknown[i], "anyone", &inter), "MPI_Conn_intercomm_create", "handle");
        FAILS_SAYING(MPI_Conn_remove(unknown[i]), "MPI_Conn_remove", "handle");
        CHECK(inter == MPI_COMM_NULL);
    }

    OK(MPI_Conn_register("here", MPI_COMM_WORLD, &handle));
    FAILS_SAYING(MPI_Conn_intercomm_create(handle, NULL, &inter), "MPI_Conn_intercomm_create");
    FAILS_SAYING(MPI_Conn_intercomm_create(handle, "", &inter), "MPI_Conn_intercomm_create");
    FAILS_SAYING(MPI_Conn_intercomm_create(handle, longer, &inter), "MPI_Conn_intercomm_create", "255");
    FAILS_SAYING(MPI_Conn_intercomm_create(handle, "\xc0\x80", &inter), "MPI_Conn_intercomm_create", "UTF-8");
    FAILS_SAYING(MPI_Conn_intercomm_create(handle, "anyone", NULL), "MPI_Conn_intercomm_create");

    /* A job connected to itself would wait for itself for ever. */
    FAILS_SAYING(MPI_Conn_intercomm_create(handle, "here", &inter), "MPI_Conn_intercomm_create", "here");
    OK(MPI_Conn_register("here-too", MPI_COMM_WORLD, &other));
    FAILS_SAYING(MPI_Conn_intercomm_create(handle, "here-too", &inter), "MPI_Conn_intercomm_create", "here-too");
    CHECK(inter == MPI_COMM_NULL);

    /* A name held by this very job. */
    int third = -1;
    FAILS_SAYING(MPI_Conn_register("here", MPI_COMM_WORLD, &third), "MPI_Conn_register", "here", "this very process");

    OK(MPI_Conn_remove(handle));
    FAILS_SAYING(MPI_Conn_remove(handle), "MPI_Conn_remove", "handle");
    FAILS_SAYING(MPI_Conn_intercomm_create(handle, "anyone", &inter), "MPI_Conn_intercomm_create", "handle");
    OK(MPI_Conn_register("here", MPI_COMM_WORLD, &third));
    OK(MPI_Conn_remove(third));

    /* Names that are right though they look odd: a path, blanks, other scripts, the longest. */
    static const char *const odd[] = {"../../etc/passwd", "a/b\\c:d*?", " ", "oc\xc3\xa9" "an \xe6\xb5\xb7", ".", "..",
                                      "con.lock", longest};
    for (size_t i = 0; i < sizeof odd / sizeof odd[0]; ++i) {
        OK(MPI_Conn_register(odd[i], MPI_COMM_WORLD, &third));
        OK(MPI_Conn_remove(third));
    }
    OK(MPI_Conn_remove(other));
}

/* `held NAME`: holds it until told to go. */
static void hold(void)
{
    int handle;
    OK(MPI_Conn_register(arg[0], MPI_COMM_WORLD, &handle));
    if (me == 0) {
        kit_write(kit_path("held"), "");
        kit_await(kit_path("let-go"));
    }
    MPI_Barrier(MPI_COMM_WORLD);
    OK(MPI_Conn_remove(handle));
}

/* `late NAME`: rank 1 makes the call only when it is told to. */
static void late(void)
{
    int handle;
    if (me == 1) kit_await(kit_path("let-go"));
    OK(MPI_Conn_register(arg[0], MPI_COMM_WORLD, &handle));
    OK(MPI_Conn_remove(handle));
}

/* `later NAME RANK`: the same where the library has a communicator of its own already. */
static void later(void)
{
    int handle;
    MPI_Comm inter;
    errors_return();
    OK(MPI_Conn_register(arg[0], MPI_COMM_WORLD, &handle));
    if (me == atoi(arg[1])) kit_await(kit_path("let-go"));
    CHECK(MPI_Conn_intercomm_create(handle, "nobody", &inter) != MPI_SUCCESS);
    OK(MPI_Conn_remove(handle));
}

/* `taken NAME`: another live job holds it. */
static void taken(void)
{
    int handle = -1;
    errors_return();
    double start = kit_ms();
    FAILS_SAYING(MPI_Conn_register(arg[0], MPI_COMM_WORLD, &handle), "MPI_Conn_register", arg[0]);
    CHECK(kit_ms() - start < 5000, "told after %.0f ms", kit_ms() - start);
    if (me == 0) kit_write(kit_path("let-go"), "");
}

/* `never NAME WHERE SECONDS`: nobody of that name comes. */
static void never(void)
{
    int handle;
    MPI_Comm inter = MPI_COMM_NULL;
    errors_return();
    OK(MPI_Conn_register("waiting", MPI_COMM_WORLD, &handle));
    double start = kit_ms(), limit = atof(arg[2]) * 1e3;
    FAILS_SAYING(MPI_Conn_intercomm_create(handle, arg[0], &inter), "MPI_Conn_intercomm_create", arg[0], arg[1]);
    double took = kit_ms() - start;
    CHECK(took > limit - 100 && took < limit + 3000, "told after %.0f ms", took);
    CHECK(inter == MPI_COMM_NULL);
    if (me == 0) printf("FIGURE never %.0f ms\n", took);
    OK(MPI_Conn_remove(handle));
}

/* `nowhere PATH`: the naming folder cannot be used. */
static void nowhere(void)
{
    int handle = -1;
    errors_return();
    FAILS_SAYING(MPI_Conn_register("anyone", MPI_COMM_WORLD, &handle), "MPI_Conn_register", arg[0]);
    /* The job's own MPI is none the worse. */
    int sum = 0;
    OK(MPI_Allreduce(&me, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    SAME(sum, size * (size - 1) / 2);
}

/* Not one descriptor is left; then there are some again. */
static void no_descriptors(void)
{
    enum { MOST = 4096 };
    static int taken[MOST];
    struct rlimit limit;
    int handle = -1, count = 0;
    char port[MPI_MAX_PORT_NAME];
    errors_return();
    SAME(getrlimit(RLIMIT_NOFILE, &limit), 0);
    if (limit.rlim_cur > MOST) limit.rlim_cur = MOST;
    SAME(setrlimit(RLIMIT_NOFILE, &limit), 0);
    while (count < MOST && (taken[count] = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0) ++count;
    CHECK(count < MOST && errno == EMFILE);
    FAILS_SAYING(MPI_Conn_register("air", MPI_COMM_WORLD, &handle), "MPI_Conn_register", "Too many open files", "ulimit -n");
    FAILS_SAYING(MPI_Open_port(MPI_INFO_NULL, port), "Too many open files", "ulimit -n");
    while (count > 0) close(taken[--count]);
    OK(MPI_Open_port(MPI_INFO_NULL, port));
    OK(MPI_Close_port(port));
    OK(MPI_Conn_register("air", MPI_COMM_WORLD, &handle));
    OK(MPI_Conn_remove(handle));
}

/* `half-set RANK NAME VALUE`: that rank alone has a setting that is wrong. Whatever the answer is, it is the same for
 * all, and that rank says why. */
static void half_set(void)
{
    int handle = -1, answers[16];
    errors_return();
    double start = kit_ms();
    int code = MPI_Conn_register("anyone", MPI_COMM_WORLD, &handle), class = kit_class(code);
    if (class != MPI_SUCCESS && me == atoi(arg[0])) CHECK(strstr(kit_error(code), arg[2]), "said \"%s\"", kit_error(code));
    CHECK(kit_ms() - start < 5000, "told after %.0f ms", kit_ms() - start);
    OK(MPI_Allgather(&class, 1, MPI_INT, answers, 1, MPI_INT, MPI_COMM_WORLD));
    for (int i = 0; i < size; ++i) SAME(answers[i], answers[0]);
    if (me == 0) printf("ANSWER %d\n", class);
    if (class == MPI_SUCCESS) OK(MPI_Conn_remove(handle));
}

/* An error with the default handler ends the job. */
static void fatal(void)
{
    MPI_Comm inter;
    MPI_Conn_intercomm_create(12345678, "anyone", &inter);
    printf("SURVIVED\n");
    fflush(stdout);
}

/* `fatal-send MINE THEIRS`: the same on an inter-communicator, inherited by it. */
static void fatal_send(void)
{
    int handle, word = 0;
    MPI_Comm inter = join(arg[0], arg[1], &handle);
    MPI_Send(&word, 1, MPI_INT, 77, 0, inter);
    printf("SURVIVED\n");
    fflush(stdout);
}

/* `fatal-truncate MINE THEIRS`: what comes does not fit. */
static void fatal_truncate(void)
{
    int handle, word = 0;
    MPI_Comm inter = join(arg[0], arg[1], &handle);
    MPI_Recv(&word, 0, MPI_INT, 0, 0, inter, MPI_STATUS_IGNORE);
    printf("SURVIVED\n");
    fflush(stdout);
}

/* `fatal-refused MINE THEIRS`: a call that is not served. */
static void fatal_refused(void)
{
    int handle, word = 0, sum;
    MPI_Comm inter = join(arg[0], arg[1], &handle);
    MPI_Allreduce(&word, &sum, 1, MPI_INT, MPI_SUM, inter);
    printf("SURVIVED\n");
    fflush(stdout);
}

/* `abort MINE THEIRS`: the program ends its job itself. */
static void aborts(void)
{
    int handle;
    join(arg[0], arg[1], &handle);
    MPI_Abort(MPI_COMM_WORLD, 3);
    printf("SURVIVED\n");
    fflush(stdout);
}

/* `abort-send MINE THEIRS`: the handler that ends the processes of a communicator, on a duplicate. */
static void abort_send(void)
{
#ifdef MPI_ERRORS_ABORT
    int handle, word = 0;
    MPI_Comm inter = join(arg[0], arg[1], &handle), twin;
    OK(MPI_Comm_set_errhandler(inter, MPI_ERRORS_ABORT));
    OK(MPI_Comm_dup(inter, &twin));
    OK(MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN));
    REFUSED(MPI_Send(&word, 1, MPI_INT, 77, 0, inter), MPI_ERR_RANK);
    MPI_Send(&word, 1, MPI_INT, 77, 0, twin);
    printf("SURVIVED\n");
    fflush(stdout);
#endif
}

/* `left-alone MINE THEIRS`: the other job dies of its error; this one is told. */
static void left_alone(void)
{
    int handle, word = 0;
    errors_return();
    MPI_Comm inter = join(arg[0], arg[1], &handle);
    double start = kit_ms();
    MPI_Send(&word, 1, MPI_INT, 0, 0, inter); /* it may be dead by now */
    int code = MPI_Recv(&word, 1, MPI_INT, 0, 0, inter, MPI_STATUS_IGNORE);
    CHECK(code != MPI_SUCCESS, "received from a dead job");
    printf("TOLD %.1f\n", (kit_ms() - start) / 1e3);
    MPI_Comm_free(&inter);
}

/* The handler of the local communicator comes with the inter-communicator. */
static int handler_calls;
static void handler(MPI_Comm *comm, int *code, ...)
{
    (void)comm, (void)code;
    ++handler_calls;
}
static void inherits(void)
{
    int handle, word = 0;
    MPI_Comm local, inter;
    MPI_Errhandler counting, got;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &local));
    OK(MPI_Comm_create_errhandler(handler, &counting));
    OK(MPI_Comm_set_errhandler(local, counting));
    OK(MPI_Conn_register(arg[0], local, &handle));
    OK(MPI_Conn_intercomm_create(handle, arg[1], &inter));
    SAME(handler_calls, 0);
    OK(MPI_Comm_get_errhandler(inter, &got));
    CHECK(got == counting);
    REFUSED(MPI_Send(&word, 1, MPI_INT, 77, 0, inter), MPI_ERR_RANK);
    SAME(handler_calls, 1);
    /* A failing call of ours reports through the local communicator. */
    int third;
    CHECK(MPI_Conn_register("", local, &third) != MPI_SUCCESS);
    SAME(handler_calls, 2);
    /* Both sides have seen their errors. */
    OK(MPI_Sendrecv(&word, 1, MPI_INT, 0, 1, &third, 1, MPI_INT, 0, 1, inter, MPI_STATUS_IGNORE));
    OK(MPI_Comm_free(&inter));
    OK(MPI_Conn_remove(handle));
}

enum { LATE = 10, LATE_BYTES = 4 << 20 };

/* `leaves MINE THEIRS`: everything sent, nothing waited for, nothing freed, nothing removed; then Finalize. */
static char *late_buffer;
static void leaves(void)
{
    int handle, go;
    errors_return();
    MPI_Comm inter = join(arg[0], arg[1], &handle);
    static char small[LATE][1024];
    late_buffer = kit_alloc(LATE_BYTES);
    MPI_Request request;
    kit_fill(late_buffer, LATE_BYTES, 77);
    OK(MPI_Recv(&go, 1, MPI_INT, 0, 1, inter, MPI_STATUS_IGNORE)); /* its receive of the large one is posted */
    for (int i = 0; i < LATE; ++i) {
        kit_fill(small[i], sizeof small[i], (uint64_t)i);
        OK(MPI_Send(small[i], sizeof small[i], MPI_BYTE, 0, 2, inter));
    }
    OK(MPI_Isend(late_buffer, LATE_BYTES, MPI_BYTE, 0, 3, inter, &request));
}

/* `stays MINE THEIRS`: receives all of it when the other has been in Finalize, perhaps through it. */
static void stays(void)
{
    int handle, go = 1;
    errors_return();
    MPI_Comm inter = join(arg[0], arg[1], &handle);
    char *large = kit_alloc(LATE_BYTES), small[1024];
    MPI_Request request, never;
    MPI_Status status;
    int nothing;
    OK(MPI_Irecv(large, LATE_BYTES, MPI_BYTE, 0, 3, inter, &request));
    OK(MPI_Irecv(&nothing, 1, MPI_INT, 0, 4, inter, &never));
    OK(MPI_Send(&go, 1, MPI_INT, 0, 1, inter));
    kit_await(kit_path("finalizing"));
    for (int i = 0; i < LATE; ++i) {
        OK(MPI_Recv(small, sizeof small, MPI_BYTE, 0, 2, inter, &status));
        HOLDS(small, sizeof small, (uint64_t)i);
    }
    OK(MPI_Wait(&request, &status));
    HOLDS(large, LATE_BYTES, 77);
    /* What will never be sent now is told as an error. */
    CHECK(MPI_Wait(&never, &status) != MPI_SUCCESS, "a message from a job that has finalized");
    CHECK(MPI_Recv(&nothing, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, inter, &status) != MPI_SUCCESS);
    CHECK(MPI_Ssend(&nothing, 1, MPI_INT, 0, 5, inter) != MPI_SUCCESS);
}

/* `orphan MINE THEIRS SECONDS`: the other registers and is killed before it joins. */
static void orphan(void)
{
    int handle;
    MPI_Comm inter = MPI_COMM_NULL;
    errors_return();
    OK(MPI_Conn_register(arg[0], MPI_COMM_WORLD, &handle));
    double start = kit_ms();
    CHECK(MPI_Conn_intercomm_create(handle, arg[1], &inter) != MPI_SUCCESS, "joined a killed job");
    CHECK(kit_ms() - start < atof(arg[2]) * 1e3 + 5000, "told after %.0f ms", kit_ms() - start);
    if (me == 0) kit_write(kit_path("told"), "");
    OK(MPI_Conn_remove(handle));
}

/* `unreachable NAME WORDS WORDS`: this job cannot listen. Those who know why say it. */
static void unreachable(void)
{
    int handle, told, any = 0;
    char text[MPI_MAX_ERROR_STRING + 1] = "";
    errors_return();
    int code = MPI_Conn_register(arg[0], MPI_COMM_WORLD, &handle);
    CHECK(code != MPI_SUCCESS, "registered");
    snprintf(text, sizeof text, "%s", kit_error(code));
    told = strstr(text, arg[1]) && strstr(text, arg[2]);
    CHECK(told || strstr(text, "says why"), "%s", text);
    OK(MPI_Allreduce(&told, &any, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD));
    CHECK(any, "nobody says why");
}

/* `told MINE THEIRS WORDS WORDS`: the other is there, and cannot be reached. */
static void told(void)
{
    int handle, class;
    MPI_Comm inter = MPI_COMM_NULL;
    errors_return();
    OK(MPI_Conn_register(arg[0], MPI_COMM_WORLD, &handle));
    /* A slow start of the other's MPI does not count. */
    kit_write(kit_path("%s-is-there", arg[0]), "");
    kit_await(kit_path("%s-is-there", arg[1]));
    int code = MPI_Conn_intercomm_create(handle, arg[1], &inter);
    kit_fails_saying(__FILE__, __LINE__, "MPI_Conn_intercomm_create", code, (const char *[]){arg[1], arg[2], arg[3], NULL});
    OK(MPI_Conn_error_class(MPI_CONN_ERR_TIMEOUT, &class));
    SAME(kit_class(code), class);
    OK(MPI_Conn_remove(handle));
}

/* `lanes MINE THEIRS`: no lane in common; the name is kept until the other has found out too. */
static void lanes(void)
{
    int handle;
    MPI_Comm inter = MPI_COMM_NULL;
    errors_return();
    OK(MPI_Conn_register(arg[0], MPI_COMM_WORLD, &handle));
    FAILS_SAYING(MPI_Conn_intercomm_create(handle, arg[1], &inter), arg[1], "can never be reached");
    kit_await(kit_path("told"));
    OK(MPI_Conn_remove(handle));
}

/* `lingers MINE THEIRS`: joins, and does nothing until it is killed. */
static void lingers(void)
{
    int handle, word;
    MPI_Comm inter = join(arg[0], arg[1], &handle);
    OK(MPI_Recv(&word, 1, MPI_INT, 0, 0, inter, MPI_STATUS_IGNORE));
    kit_write(kit_path("lingers"), "");
    for (;;) pause();
}

/* `joins MINE THEIRS`: nothing but one word each way. */
static void joins(void)
{
    int handle, in = -1, out = 99;
    MPI_Comm inter = join(arg[0], arg[1], &handle);
    OK(MPI_Sendrecv(&out, 1, MPI_INT, me, 0, &in, 1, MPI_INT, me, 0, inter, MPI_STATUS_IGNORE));
    SAME(in, 99);
    OK(MPI_Comm_free(&inter));
    OK(MPI_Conn_remove(handle));
}

static const struct {
    const char *name;
    void (*run)(void);
    int arguments;
} cases[] = {
    {"arguments", arguments, 0},   {"hold", hold, 1}, {"late", late, 1}, {"later", later, 2}, {"taken", taken, 1},       {"never", never, 3},
    {"lanes", lanes, 2},
    {"nowhere", nowhere, 1},       {"half-set", half_set, 3}, {"fatal", fatal, 0},       {"fatal-send", fatal_send, 2},
    {"fatal-truncate", fatal_truncate, 2}, {"fatal-refused", fatal_refused, 2},
    {"left-alone", left_alone, 2}, {"inherits", inherits, 2}, {"leaves", leaves, 2},     {"stays", stays, 2},
    {"orphan", orphan, 3},         {"joins", joins, 2},         {"abort-send", abort_send, 2},
    {"unreachable", unreachable, 3}, {"told", told, 4},         {"lingers", lingers, 2},
    {"no-descriptors", no_descriptors, 0}, {"abort", aborts, 2},
};

int main(int argc, char **argv)
{
    int handle = -1;
    const char *name = argc > 1 ? argv[1] : "";
    /* The message that these leave behind is the MPI's and ours; the harness reads it. */
    if (!strcmp(name, "before-init")) return MPI_Conn_register("early", MPI_COMM_WORLD, &handle) != MPI_SUCCESS;

    if (!strcmp(name, "half-set")) {
        const char *rank = kit_launched_rank();
        CHECK(rank && argc == 5, "no rank in the environment");
        if (rank && argc == 5 && !strcmp(rank, argv[2])) setenv(argv[3], argv[4], 1);
    }

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    kit_rank = me;
    kit_label = name;
    arg = argv + 2;

    if (!strcmp(name, "after-finalize")) {
        MPI_Finalize();
        return MPI_Conn_register("late", MPI_COMM_WORLD, &handle) != MPI_SUCCESS;
    }
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i)
        if (!strcmp(cases[i].name, name) && argc == 2 + cases[i].arguments) {
            cases[i].run();
            int result = kit_end();
            if (!strcmp(name, "leaves")) kit_write(kit_path("finalizing"), "");
            MPI_Finalize();
            return result;
        }
    fprintf(stderr, "bad: no case \"%s\" with %d arguments\n", name, argc - 2);
    MPI_Abort(MPI_COMM_WORLD, 2);
}
