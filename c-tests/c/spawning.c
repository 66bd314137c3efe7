/* Parents and children of MPI_Comm_spawn under different MPIs. The folder of the test has `spawn.toml`, a manifest with the jobs
 * `child` and `grandchild`, whose program is this one.
 *
 *     spawning parent CASE CHILDREN [LAUNCHER PROGRAM]
 *     spawning child CASE ...
 */
#include "kit.h"

enum { MOST = 16, LARGE = 300001 };

static int size;
static MPI_Comm inter = MPI_COMM_NULL;
static int codes[MOST];

static MPI_Info job(const char *name)
{
    MPI_Info info;
    char manifest[4096];
    snprintf(manifest, sizeof manifest, "%s", kit_path("spawn.toml"));
    OK(MPI_Info_create(&info));
    /* Significant on the root alone. */
    if (kit_rank != size - 1) return info;
    OK(MPI_Info_set(info, "mpi_connect_manifest", manifest));
    OK(MPI_Info_set(info, "mpi_connect_job", (char *)name));
    return info;
}

static int child_has(const char *name, const char *key, const char *value, char **argv, int most, const char *command)
{
    MPI_Info info = job(name);
    for (int k = 0; k < MOST; ++k) codes[k] = -7;
    if (key) OK(MPI_Info_set(info, (char *)key, (char *)value));
    int root = size - 1, is_root = kit_rank == root;
    int code = MPI_Comm_spawn(is_root ? (char *)command : NULL, is_root ? argv : MPI_ARGV_NULL, is_root ? most : -1, info, root,
                              MPI_COMM_WORLD, &inter, kit_rank % 2 ? MPI_ERRCODES_IGNORE : codes);
    OK(MPI_Info_free(&info));
    return code;
}

static void start(const char *name, const char *what, int children)
{
    char *argv[] = {"child", (char *)what, "a b", "", NULL};
    OK(child_has(name, NULL, NULL, argv, children, ""));
    for (int k = 0; k < children && kit_rank % 2 == 0; ++k) SAME(codes[k], MPI_SUCCESS);
    SAME(codes[children], -7);
    OK(MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN));
}

/* Everybody with everybody, both ways. */
static void exchange(MPI_Comm with, int side)
{
    int there, mine, inter_flag = 0;
    char *out = kit_alloc(LARGE), *in = kit_alloc(LARGE);
    OK(MPI_Comm_test_inter(with, &inter_flag));
    SAME(inter_flag, 1);
    OK(MPI_Comm_remote_size(with, &there));
    OK(MPI_Comm_rank(with, &mine));
    for (int bytes = 9; bytes <= LARGE; bytes += LARGE - 9) {
        MPI_Request send[MOST];
        for (int k = 0; k < there; ++k) {
            kit_fill(out, (size_t)bytes, (uint64_t)(side * 100 + mine));
            OK(MPI_Isend(out, bytes, MPI_BYTE, k, 5, with, &send[k]));
        }
        for (int k = 0; k < there; ++k) {
            OK(MPI_Recv(in, bytes, MPI_BYTE, k, 5, with, MPI_STATUS_IGNORE));
            HOLDS(in, (size_t)bytes, (uint64_t)(!side * 100 + k));
        }
        OK(MPI_Waitall(there, send, MPI_STATUSES_IGNORE));
    }
    free(out), free(in);
}

static void part(void)
{
    OK(MPI_Comm_disconnect(&inter));
    CHECK(inter == MPI_COMM_NULL);
}

/* ---- parents ---- */

static void twice(int children)
{
    MPI_Comm first, merged;
    start("child", "exchange", children);
    first = inter;
    start("child", "exchange", 1);
    exchange(first, 0);
    exchange(inter, 0);
    FAILS_SAYING(MPI_Intercomm_merge(inter, 0, &merged), "MPI_Intercomm_merge", "inter-communicator between jobs");
    FAILS_SAYING(MPI_Comm_spawn("a", MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, inter, &merged, MPI_ERRCODES_IGNORE), "MPI_Comm_spawn",
                 "not available on an inter-communicator between jobs");
    part();
    inter = first;
    part();
}

static void again(int children)
{
    start("child", "again", children);
    exchange(inter, 0);
    part();
}

static void multiple(int children)
{
    char *one[] = {"child", "exchange", NULL}, *two[] = {"child", "second", "x y", NULL};
    char **argvs[] = {one, two};
    char *commands[] = {"", ""};
    int most[] = {1, children}, there, number;
    MPI_Info infos[] = {job("child"), job("child")};
    OK(MPI_Comm_spawn_multiple(kit_rank == size - 1 ? 2 : 0, commands, argvs, most, infos, size - 1, MPI_COMM_WORLD, &inter, codes));
    OK(MPI_Comm_remote_size(inter, &there));
    SAME(there, 1 + children);
    for (int k = 0; k < there; ++k) SAME(codes[k], MPI_SUCCESS);
    exchange(inter, 0);
    for (int k = 1; k < there && !kit_rank; ++k) {
        OK(MPI_Recv(&number, 1, MPI_INT, k, 6, inter, MPI_STATUS_IGNORE));
        SAME(number, 77);
    }
    part();
    /* Fewer of the first than there might be. */
    most[0] = 2, most[1] = 1;
    OK(MPI_Info_set(infos[0], "soft", "1"));
    for (int k = 0; k < MOST; ++k) codes[k] = -7;
    OK(MPI_Comm_spawn_multiple(2, commands, argvs, most, infos, size - 1, MPI_COMM_WORLD, &inter, codes));
    OK(MPI_Comm_remote_size(inter, &there));
    SAME(there, 2);
    SAME(codes[0], MPI_SUCCESS);
    SAME(codes[1], MPI_ERR_SPAWN);
    SAME(codes[2], MPI_SUCCESS);
    SAME(codes[3], -7);
    exchange(inter, 0);
    if (!kit_rank) OK(MPI_Recv(&number, 1, MPI_INT, 1, 6, inter, MPI_STATUS_IGNORE));
    part();
    OK(MPI_Info_free(&infos[0]));
    OK(MPI_Info_free(&infos[1]));
}

static void refused(int code, int children, const char *a, const char *b)
{
    CHECK(code != MPI_SUCCESS);
    SAME(kit_class(code), MPI_ERR_SPAWN);
    FAILS_SAYING(code, "MPI_Comm_spawn", a, b);
    for (int k = 0; k < children && kit_rank % 2 == 0; ++k) SAME(codes[k], MPI_ERR_SPAWN);
    SAME(codes[children], -7);
}

static void missing(int children)
{
    char *argv[] = {"child", "exchange", NULL};
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    refused(child_has("child", NULL, NULL, argv, children, "./no-such-program"), children, "there is no program", "no-such-program");
    refused(child_has("nobody", NULL, NULL, argv, children, ""), children, "no such job", "'child'");
    refused(child_has("child", "soft", "100:200", argv, children, ""), children, "soft", "100:200");
    refused(child_has("child", "wdir", "/no/such/folder", argv, children, ""), children, "directory", "/no/such/folder");
    refused(child_has("child", "mpi_connect_launcher", "no-such-launcher", argv, children, ""), children, "mpi_connect", "one of them");
    refused(child_has("child", "mpi_connect_lancher", "x", argv, children, ""), children, "mpi_connect_lancher", "no such key");
    MPI_Info info;
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "mpi_connect_launcher", "no-such-launcher -x"));
    int code = MPI_Comm_spawn("./a", MPI_ARGV_NULL, children, info, 0, MPI_COMM_WORLD, &inter, kit_rank % 2 ? MPI_ERRCODES_IGNORE : codes);
    OK(MPI_Info_free(&info));
    refused(code, children, "launcher", "no-such-launcher");
    /* And then one that works. */
    start("child", "exchange", children);
    exchange(inter, 0);
    part();
}

static void silent(int children)
{
    char *argv[] = {"child", "silent", NULL};
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    double begun = kit_ms();
    refused(child_has("child", NULL, NULL, argv, children, ""), children, "before it called MPI_Init", "said in vain");
    CHECK(kit_ms() - begun < 30000, "%.0f ms", kit_ms() - begun);
}

/* The child runs, and never calls MPI_Init. */
static void late(int children)
{
    char *argv[] = {"child", "late", NULL};
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    refused(child_has("child", "timeout", "2", argv, children, ""), children, "has not called MPI_Init", "waited 2 s");
    kit_write(kit_path("told-%d", kit_rank), "told\n");
}

static void aborts(int children)
{
    int number, gone = -1;
    start("child", "aborts", children);
    int code = MPI_Recv(&number, 1, MPI_INT, 0, 9, inter, MPI_STATUS_IGNORE);
    CHECK(code != MPI_SUCCESS);
#ifndef KIT_NATIVE
    OK(MPI_Conn_error_class(MPI_CONN_ERR_PEER_GONE, &gone));
#endif
    SAME(kit_class(code), gone);
    MPI_Comm_disconnect(&inter);
}

static void killed(int children)
{
    int number;
    start("child", "waits", children);
    exchange(inter, 0);
    kit_write(kit_path("kill-me-%d", kit_rank), "now\n");
    MPI_Recv(&number, 1, MPI_INT, 0, 9, inter, MPI_STATUS_IGNORE);
    CHECK(0, "back from a wait");
}

/* The children go on when they have parted, or when their parents have finalized. */
static void outlived(int children)
{
    start("child", "outlives", children);
    exchange(inter, 0);
    part();
}

static void finalizes(int children)
{
    start("child", "alone", children);
    exchange(inter, 0);
}

/* Under a launcher that the info object names: words[0] is it, and words[1] the program. */
static char **words;

static void launcher(int children)
{
    char *argv[] = {"child", "exchange", NULL};
    MPI_Info info;
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "mpi_connect_launcher", words[0]));
    OK(MPI_Info_set(info, "wdir", "/tmp"));
    OK(MPI_Comm_spawn(words[1], argv, children, info, 0, MPI_COMM_WORLD, &inter, MPI_ERRCODES_IGNORE));
    exchange(inter, 0);
    part();
    /* By its folder, and fewer than there might be. */
    char *slash = strrchr(words[1], '/');
    *slash = 0;
    OK(MPI_Info_set(info, "path", words[1]));
    OK(MPI_Info_set(info, "soft", "1:2"));
    OK(MPI_Comm_spawn(slash + 1, argv, children + 2, info, 0, MPI_COMM_WORLD, &inter, codes));
    int there;
    OK(MPI_Comm_remote_size(inter, &there));
    SAME(there, 2);
    for (int k = 0; k < children + 2; ++k) SAME(codes[k], k < 2 ? MPI_SUCCESS : MPI_ERR_SPAWN);
    exchange(inter, 0);
    part();
    OK(MPI_Info_free(&info));
}

/* Without a key of the library's. */
static void native(int children)
{
    char *argv[] = {"child", "native", NULL};
    OK(MPI_Comm_spawn(words[1], argv, children, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter, MPI_ERRCODES_IGNORE));
    exchange(inter, 0);
    part();
}

/* ---- children ---- */

static void child(const char *what)
{
    MPI_Comm none = inter;
    if (!strcmp(what, "silent") || !strcmp(what, "late")) {
        fprintf(stderr, "said in vain\n");
        while (!strcmp(what, "late")) kit_sleep_ms(100);
        exit(3);
    }
    MPI_Init(NULL, NULL);
    MPI_Comm_rank(MPI_COMM_WORLD, &kit_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    kit_label = "child";
    CHECK(getenv("MPI_CONNECT_PARENT") == NULL);
    OK(MPI_Comm_get_parent(&inter));
    CHECK(inter != MPI_COMM_NULL);
    if (inter == MPI_COMM_NULL) MPI_Abort(MPI_COMM_WORLD, 1);
    char name[MPI_MAX_OBJECT_NAME + 1] = "";
    int length;
    OK(MPI_Comm_get_name(inter, name, &length));
    CHECK(!strcmp(name, "MPI_COMM_PARENT") || !strcmp(what, "native"), "%s", name);
    OK(MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN));
    if (!strcmp(what, "aborts")) MPI_Abort(MPI_COMM_WORLD, 7);
    if (!strcmp(what, "plain")) OK(MPI_Send(&kit_rank, 1, MPI_INT, 0, 6, inter));
    else exchange(inter, 1);
    if (!strcmp(what, "second")) {
        int number = 77;
        OK(MPI_Send(&number, 1, MPI_INT, 0, 6, inter));
    }
    if (!strcmp(what, "waits")) {
        int number, code = MPI_Recv(&number, 1, MPI_INT, 0, 9, inter, MPI_STATUS_IGNORE);
        CHECK(code != MPI_SUCCESS);
        for (;;) pause();
    }
    if (!strcmp(what, "alone")) {
        kit_await(kit_path("parents-are-gone"));
    } else {
        part();
        OK(MPI_Comm_get_parent(&none));
        CHECK(none == MPI_COMM_NULL);
    }
    if (!strcmp(what, "native")) {
        MPI_Finalize();
        exit(kit_failures > 0);
    }
    if (!strcmp(what, "again")) {
        start("grandchild", "exchange", 2);
        exchange(inter, 0);
        part();
    }
    if (!strcmp(what, "outlives")) kit_await(kit_path("parents-are-gone"));
    printf("CHILD %s %d of %d\n", what, kit_rank, size);
    fflush(stdout);
    int failed = kit_end();
    if (kit_rank == 0) kit_write(kit_path("%s-is-done", what), failed ? "failed\n" : "well\n");
    MPI_Finalize();
    exit(failed);
}

/* The program is of another MPI than the launcher, so each process is a world of its own. */
static void stranger(int children)
{
    char *argv[] = {"child", "exchange", NULL};
    MPI_Info info;
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    for (int k = 0; k < MOST; ++k) codes[k] = -7;
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "mpi_connect_launcher", words[0]));
    int code = MPI_Comm_spawn(words[1], argv, children, info, 0, MPI_COMM_WORLD, &inter, codes);
    OK(MPI_Info_free(&info));
    refused(code, children, "processes were started", "another MPI");
}

static const struct {
    const char *name;
    void (*run)(int);
} cases[] = {
    {"twice", twice},   {"again", again},   {"multiple", multiple}, {"missing", missing},     {"silent", silent},
    {"late", late},     {"aborts", aborts}, {"killed", killed},     {"outlived", outlived},   {"finalizes", finalizes},
    {"launcher", launcher}, {"stranger", stranger}, {"native", native},
};

int main(int argc, char **argv)
{
    if (argc < 3) return 2;
    if (!strcmp(argv[1], "child")) {
        if (!strcmp(argv[2], "exchange") && argc > 3 && strcmp(argv[3], "a b")) return 2;
        child(argv[2]);
    }
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &kit_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    kit_label = "parent";
    words = argv + 4;
    OK(MPI_Comm_get_parent(&inter));
    CHECK(inter == MPI_COMM_NULL);
    for (size_t k = 0; k < sizeof cases / sizeof *cases; ++k)
        if (!strcmp(cases[k].name, argv[2])) cases[k].run(atoi(argv[3]));
    int failed = kit_end();
    MPI_Finalize();
    kit_write(kit_path("finalized"), "parents\n");
    return failed;
}
