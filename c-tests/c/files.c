/* Files of another job, while that one makes no call.
 *
 *     files MINE THEIRS serve END            waits for END outside MPI
 *     files MINE THEIRS edges END LOCAL      fetches and puts files of all sizes, and such that must fail
 *     files MINE THEIRS get END PATH LOCAL   fetches one; a second call fetches it again, where the first has failed
 *     files MINE THEIRS flow END PATH LOCAL  rank 0 of both exchange messages while the others fetch one: with `flow` on both sides
 */
#include "kit.h"

#define CHUNK (1L << 20)

static MPI_Comm other;
static const char *local;
static int kinds[2];

/* The pattern of files is that of the harness: byte k is (k + k / 251) mod 256. */
static void check_file(const char *path, long size)
{
    FILE *f = fopen(path, "rb");
    static unsigned char piece[1 << 16];
    long at = 0, wrong = -1;
    CHECK(f != NULL, "%s: %s", path, strerror(errno));
    if (!f) return;
    for (size_t n; (n = fread(piece, 1, sizeof piece, f)) > 0; at += (long)n)
        for (size_t i = 0; i < n && wrong < 0; ++i) {
            long k = at + (long)i;
            if (piece[i] != (unsigned char)(k + k / 251)) wrong = k;
        }
    fclose(f);
    SAME(at, size);
    SAME(wrong, -1);
}

static const char *here(const char *name)
{
    static char path[2][4096];
    static int turn;
    turn = !turn;
    snprintf(path[turn], sizeof path[turn], "%s/%s", local, name);
    return path[turn];
}

/* Classes that an MPI lacks are MPI_ERR_OTHER. */
#ifdef LAM_MPI
#define FILE_CLASS(class) MPI_ERR_OTHER
#else
#define FILE_CLASS(class) class
#endif

static void edges(void)
{
    static const long sizes[] = {0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK + 7, 40 * CHUNK + 5};
    char name[64], back[64];
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i) {
        snprintf(name, sizeof name, "f%ld", sizes[i]);
        snprintf(back, sizeof back, "back%ld", sizes[i]);
        OK(MPI_Conn_getfile(other, name, here(name)));
        check_file(here(name), sizes[i]);
        OK(MPI_Conn_putfile(other, here(name), back));
        OK(MPI_Conn_getfile(other, back, here(back)));
        check_file(here(back), sizes[i]);
    }
    /* Into a folder, under the file's own name; over a file that is there. */
    OK(MPI_Conn_getfile(other, "sub/deep", local));
    check_file(here("deep"), 1000);
    OK(MPI_Conn_getfile(other, "f1", here("deep")));
    check_file(here("deep"), 1);
    OK(MPI_Conn_putfile(other, here("f1"), "back0"));
    OK(MPI_Conn_getfile(other, "back0", here("back0")));
    check_file(here("back0"), 1);
    OK(MPI_Conn_getfile(other, "inside", here("inside")));
    check_file(here("inside"), 1000);

    static const char *const outside[] = {"../secret", "sub/../../secret", "up", "away", "sub/far/secret", "/etc/passwd"};
    for (size_t i = 0; i < sizeof outside / sizeof *outside; ++i)
        REFUSED(MPI_Conn_getfile(other, outside[i], here("none")), FILE_CLASS(MPI_ERR_ACCESS));
    REFUSED(MPI_Conn_putfile(other, here("f1"), "../new"), FILE_CLASS(MPI_ERR_ACCESS));
    REFUSED(MPI_Conn_putfile(other, here("f1"), "out/new"), FILE_CLASS(MPI_ERR_ACCESS));
    REFUSED(MPI_Conn_putfile(other, here("f1"), kit_path("open/sub/new")), FILE_CLASS(MPI_ERR_READ_ONLY));
    REFUSED(MPI_Conn_getfile(other, "nothing", here("none")), FILE_CLASS(MPI_ERR_NO_SUCH_FILE));
    REFUSED(MPI_Conn_getfile(other, "sub", here("none")), FILE_CLASS(MPI_ERR_BAD_FILE));
    REFUSED(MPI_Conn_getfile(other, "pipe", here("none")), FILE_CLASS(MPI_ERR_BAD_FILE));
    REFUSED(MPI_Conn_getfile(other, "f1", here("no/folder")), FILE_CLASS(MPI_ERR_NO_SUCH_FILE));
    REFUSED(MPI_Conn_putfile(other, here("nothing"), "new"), FILE_CLASS(MPI_ERR_NO_SUCH_FILE));
    REFUSED(MPI_Conn_putfile(other, here("f1"), "drawer"), FILE_CLASS(MPI_ERR_BAD_FILE));
    REFUSED(MPI_Conn_getfile(other, NULL, here("none")), MPI_ERR_ARG);
    REFUSED(MPI_Conn_getfile(other, "", here("none")), MPI_ERR_ARG);
    FAILS_SAYING(MPI_Conn_getfile(other, "nothing", here("none")), "MPI_Conn_getfile", "'nothing'");
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    REFUSED(MPI_Conn_getfile(MPI_COMM_WORLD, "f1", here("none")), MPI_ERR_COMM);
    CHECK(!kit_is_there(here("none")));
    /* What fills the disk. */
    if (getenv("SMALL")) {
        char full[4200];
        snprintf(full, sizeof full, "%s/full", getenv("SMALL"));
        REFUSED(MPI_Conn_getfile(other, "f41943045", full), FILE_CLASS(MPI_ERR_NO_SPACE));
        REFUSED(MPI_Conn_putfile(other, here("f41943045"), kit_path("small/full")), FILE_CLASS(MPI_ERR_NO_SPACE));
    }
}

static void get(const char *path)
{
    int code = MPI_Conn_getfile(other, path, local), gone = kit_class(code) == kinds[0];
    if (kit_rank == 0) {
        printf("GOT %d %s%s\n", kit_class(code), gone ? "PEER_GONE " : "", code ? kit_error(code) : "");
        fflush(stdout);
    }
}

/* Messages of rank 0 of both until END is there on either side; the others of `fetches` fetch a file meanwhile. */
static void flow(const char *end, const char *path, int fetches)
{
    MPI_Comm part;
    MPI_Status status;
    char data[20000] = "";
    OK(MPI_Comm_split(other, kit_rank > 0, kit_rank, &part));
    if (kit_rank > 0) {
        OK(MPI_Comm_set_errhandler(part, MPI_ERRORS_RETURN));
        if (fetches) {
            double begin = kit_ms();
            OK(MPI_Conn_getfile(part, path, local));
            if (kit_rank == 1) {
                printf("FETCHED %.0f ms\n", kit_ms() - begin);
                fflush(stdout);
                kit_write(end, "fetched");
            }
        } else {
            kit_await(end);
        }
    } else {
        int go_on[2] = {1, 1};
        long turns = 0;
        uint64_t sums[2] = {0, 0};
        for (; go_on[0] || go_on[1]; ++turns) {
            go_on[0] = !kit_is_there(end);
            OK(MPI_Sendrecv(&go_on[0], 1, MPI_INT, 0, 2, &go_on[1], 1, MPI_INT, 0, 2, part, &status));
            kit_fill(data, sizeof data, (uint64_t)turns);
            OK(MPI_Sendrecv_replace(data, sizeof data, MPI_BYTE, 0, 3, 0, 3, part, &status));
            HOLDS(data, sizeof data, (uint64_t)turns);
            sums[0] += sizeof data;
            if (turns == 20) kit_write(kit_path("%s-flows", kit_label), "flows");
        }
        printf("TURNS %ld\n", turns);
        fflush(stdout);
    }
    OK(MPI_Comm_free(&part));
}

int main(int argc, char **argv)
{
    int handle = -1;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &kit_rank);
    if (argc < 5) MPI_Abort(MPI_COMM_WORLD, 2);
    kit_label = argv[1];
    local = argv[argc - 1];
    OK(MPI_Conn_register(argv[1], MPI_COMM_WORLD, &handle));
    OK(MPI_Conn_intercomm_create(handle, argv[2], &other));
    OK(MPI_Conn_remove(handle));
    OK(MPI_Comm_set_errhandler(other, MPI_ERRORS_RETURN));
    OK(MPI_Conn_error_class(MPI_CONN_ERR_PEER_GONE, &kinds[0]));
    if (!strcmp(argv[3], "serve")) {
        if (kit_rank == 0) kit_write(kit_path("%s-serves", argv[1]), "serves");
        kit_await(argv[4]);
    } else if (!strcmp(argv[3], "edges")) {
        edges();
        if (kit_rank == 0) kit_write(argv[4], "end");
    } else if (!strcmp(argv[3], "get")) {
        get(argv[5]);
        if (kit_rank == 0) kit_write(argv[4], "end");
    } else {
        flow(argv[4], argv[5], !strcmp(argv[1], "ocean"));
    }
    OK(MPI_Comm_free(&other));
    int failed = kit_end();
    MPI_Finalize();
    return failed;
}
